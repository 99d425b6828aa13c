// The measured ceilings of this machine that results are held against: `strobe env` and every bench result.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "bench/case.h"
#include "core/json.h"
#include "strobe/dtype.h"

namespace strobe::bench {

// What a call of the library costs the CPU on its way to a GPU: validation, choice, descriptors, launch.
// Seconds a call, of ten in a row that nothing waits for, a thousand times: by the fastest ten, which no neighbour on
// the machine has slowed down, and by the median.
struct CallTime {
  double least, median;
};

struct CallCost {
  double first;         // seconds of a process's first forward call on a warm GPU: the kernel's module is loaded then
  double first_loaded;  // of the first call of another kernel of that module
  CallTime forward, backward;
  CallTime large_backward;
};

// Causal problems, workspace given: 2 heads of 256 rows, and 512 of 512; in bf16, the first call of all in fp16. Throws
// Error where there is no GPU.
CallCost gpu_call_cost();

// The yardstick, "matrix-product rate": what a complete product C = A B of plain row-major matrices reaches, as a
// person would call it. In fp32 that is OpenBLAS's sgemm at 2048^3. Debian's OpenBLAS has no bf16 or fp16 product, so
// that flash2's own inner product stands in for it there, on panels that are packed already and lie in cache. It does
// not in fp32: it reaches 98 % of the FMA peak, and the 90 % of it that a cell is held to would be more than the 75 %
// of that peak that is the goal of the best cells. On a GPU it is cuBLAS's product of that type.
struct Ceilings {
  Device device = Device::cpu;  // whose rates these are; those of the other device are absent
  int threads = 1;
  std::string fma_instructions;
  std::optional<double> fma_core, fma_all;  // fp32, FLOP/s: one core; all threads
  std::optional<double> sgemm;              // OpenBLAS's fp32 product, FLOP/s, all threads
  std::optional<double> packed[3];          // flash2's inner product on packed panels in cache, by dtype, FLOP/s
  std::optional<double> cublas[3];          // CUDA: cuBLAS's product, by dtype, FLOP/s
  std::optional<double> tf32;               // CUDA: the same of fp32 through tf32
  std::string cublas_refusal;               // CUDA: why these are absent, where they are
  std::optional<double> copy;               // bytes read and written a second, all threads
  std::optional<double> timed_least;        // seconds shown for a wait of 1 us; CUDA: for the smallest kernel
  std::optional<CallCost> call;             // CUDA: what a call costs the host

  // The matrix-product rate of a type, and by which product it was measured.
  std::optional<double> product(DType dtype) const;
  const char* product_name(DType dtype) const;

  // Whether the complete product was so far below the FMA peak that somebody else must have used the cores. (flash2's
  // own product may be above that peak.)
  bool disturbed() const;

  // The best rate of any product that was measured, complete or not: no kernel will be faster.
  std::optional<double> fastest(DType dtype) const;
};

enum class Depth {
  none,   // nothing is measured
  brief,  // what a bench row needs, about half a second
  full,   // everything, about three seconds
};

// The rate, or nothing and why where that is refused, as a GPU's is where there is no cuBLAS. Other errors are passed
// on.
std::optional<double> rate_where_supported(const std::function<double()>& measure, std::string& refusal);

// Of the CPU, in these types and fp32.
Ceilings measure_ceilings(int threads, std::span<const DType> types, Depth depth);

// Of the current GPU: the copy rate and cuBLAS's product in these types, about 100 ms each; tf32 if full.
Ceilings measure_gpu_ceilings(std::span<const DType> types, Depth depth);

// Those of the cases' device, in the types that occur among them. Device and threads are the same for all of them.
Ceilings ceilings_for(std::span<const Case> cases, Depth depth);

inline constexpr DType kAllTypes[] = {DType::fp32, DType::fp16, DType::bf16};

Json ceilings_json(const Ceilings& ceilings);
Json gpu_ceilings_json(const Ceilings& ceilings);  // what a GPU has of them, for `strobe env`

// environment_json() of measure/ with instruction sets and ceilings.
Json full_environment(const Ceilings& ceilings);

}  // namespace strobe::bench
