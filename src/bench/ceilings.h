// Measured rates of this machine, the ceilings of results. `strobe env` prints them; every bench result contains them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "bench/case.h"
#include "core/json.h"
#include "strobe/dtype.h"

namespace strobe::bench {

// Host cost of a library call that launches on a GPU: validation, kernel choice, tensor maps, launch. Seconds per call,
// over a thousand batches of ten calls without synchronisation. `least` is that of the fastest batch, which other
// processes did not disturb.
struct CallTime {
  double least, median;
};

struct CallCost {
  double first;         // seconds of a process's first forward call on a warm GPU, which loads the kernel's module
  double first_loaded;  // seconds of the first call of another kernel of that module
  CallTime forward, backward;
  CallTime large_backward;
};

// Measures causal problems with workspace: 2 heads of 256 rows, and 512 heads of 512 rows, in bf16. The first call of
// all is in fp16. Throws Error without a GPU.
CallCost gpu_call_cost();

// Measured rates of a device. The result key "matrix-product rate" is the rate of a complete matmul C = A B of
// row-major matrices. fp32: OpenBLAS's sgemm at 2048^3. bf16 and fp16: flash2's inner matmul on packed panels in cache,
// because Debian's OpenBLAS has no GEMM for them. GPU: cuBLAS's GEMM of the type. fp32 does not use the inner matmul:
// it reaches 98 % of the FMA peak. Kernels must reach 90 % of the rate, which would then exceed the goal of the best
// cells, 75 % of the peak.
struct Ceilings {
  Device device = Device::cpu;  // the measured device; rates of the other device are absent
  int threads = 1;
  std::string fma_instructions;
  std::optional<double> fma_core, fma_all;  // fp32 FMA, FLOP/s: one core; all threads
  std::optional<double> sgemm;              // OpenBLAS sgemm, FLOP/s, all threads
  std::optional<double> packed[3];          // flash2's inner matmul on packed panels in cache, by dtype, FLOP/s
  std::optional<double> cublas[3];          // CUDA: cuBLAS GEMM, by dtype, FLOP/s
  std::optional<double> tf32;               // CUDA: cuBLAS fp32 GEMM with TF32
  std::string cublas_refusal;               // CUDA: why the cuBLAS rates are absent
  std::optional<double> copy;               // bytes read and written per second, all threads
  std::optional<double> timed_least;        // seconds reported for a wait of 1 us; CUDA: for an empty kernel
  std::optional<CallCost> call;             // CUDA: host cost of a call

  // The matmul rate of a type, and the name of the matmul that was measured.
  std::optional<double> matmul(DType dtype) const;
  const char* matmul_name(DType dtype) const;

  // True if the complete matmul was so far below the FMA peak that another process must have used the cores. flash2's
  // inner matmul may exceed that peak.
  bool disturbed() const;

  // The best rate of any measured matmul, complete or packed: an upper bound for kernels.
  std::optional<double> fastest(DType dtype) const;
};

enum class Depth {
  none,   // no measurement
  brief,  // rates for a bench row, about half a second
  full,   // all rates, about three seconds
};

// Returns the rate, or sets `refusal` if it is unsupported, such as a GPU's without cuBLAS. Rethrows other errors.
std::optional<double> rate_where_supported(const std::function<double()>& measure, std::string& refusal);

// Rates of the CPU, for `types` and fp32.
Ceilings measure_ceilings(int threads, std::span<const DType> types, Depth depth);

// Rates of the current GPU: copy and cuBLAS's GEMM in these types, about 100 ms each; TF32 at full depth.
Ceilings measure_gpu_ceilings(std::span<const DType> types, Depth depth);

// Rates of the cases' device, for all types in them. Device and threads must be the same in all cases.
Ceilings ceilings_for(std::span<const Case> cases, Depth depth);

inline constexpr DType kAllTypes[] = {DType::fp32, DType::fp16, DType::bf16};

Json ceilings_json(const Ceilings& ceilings);
Json gpu_ceilings_json(const Ceilings& ceilings);  // the GPU's rates for `strobe env`

// environment_json() of measure/ plus instruction sets and ceilings.
Json full_environment(const Ceilings& ceilings);

}  // namespace strobe::bench
