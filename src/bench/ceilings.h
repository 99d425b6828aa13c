// Measures the matmul and copy rates of this machine, called ceilings. Results state a kernel's rate as a share of the
// matmul rate. `strobe env` prints the ceilings, and bench results contain them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "bench/case.h"
#include "core/json.h"
#include "strobe/dtype.h"

namespace strobe::bench {

// Host seconds per library call that launches on a GPU: validation, kernel choice, tensor maps, launch. Statistics over
// a thousand groups of ten calls, without synchronisation inside a group. `least` is the fastest group, which other
// processes did not disturb.
struct CallTime {
  double least, median;
};

struct CallCost {
  double first;         // seconds of the process's first forward call, which loads the kernel's CUDA module
  double first_loaded;  // seconds of the first call of another kernel of that module
  CallTime forward, backward;
  CallTime large_backward;
};

// Measures causal bf16 problems with workspace: 2 heads of 256 rows, and 512 heads of 512 rows (large_backward). The
// process's first call is in fp16, so that `first_loaded` measures another kernel of a loaded module. Throws Error
// without a GPU.
CallCost gpu_call_cost();

// Measured rates of a device. The matmul rate of a GPU is the rate of cuBLAS's GEMM. On a CPU, fp32 has the rate of
// OpenBLAS's sgemm at 2048^3. bf16 and fp16 have the rate of flash2's inner matmul on packed panels in cache, because
// Debian's OpenBLAS has no GEMM for these types. The inner matmul is not used for fp32: it reaches 98 % of the FMA
// peak, so limits that are shares of the matmul rate would be too strict.
struct Ceilings {
  Device device = Device::cpu;  // the measured device; rates of the other device are absent
  int threads = 1;
  std::string fma_instructions;
  std::optional<double> fma_core, fma_all;  // fp32 FMA, FLOP/s: one core; all threads
  std::optional<double> sgemm;              // OpenBLAS sgemm, FLOP/s, all threads
  std::optional<double> packed[3];          // CPU: flash2's inner matmul, by dtype, FLOP/s
  std::optional<double> cublas[3];          // CUDA: cuBLAS GEMM, by dtype, FLOP/s
  std::optional<double> tf32;               // CUDA: cuBLAS fp32 GEMM with TF32
  std::string cublas_refusal;               // CUDA: the error if a cuBLAS rate is absent
  std::optional<double> copy;               // bytes read and written per second, all threads
  std::optional<double> timed_least;        // CPU: seconds measured for a wait of 1 us; CUDA: for a fill of 4 bytes
  std::optional<CallCost> call;             // CUDA: host cost of a call

  // The matmul rate of a type, and the name of the matmul that was measured.
  std::optional<double> matmul(DType dtype) const;
  const char* matmul_name(DType dtype) const;

  // True if sgemm reached less than half of the FMA peak, so that another process must have used the cores.
  bool disturbed() const;

  // The larger of the matmul rate and the packed rate: an upper bound for kernels.
  std::optional<double> fastest(DType dtype) const;
};

enum class Depth {
  none,   // no measurement
  brief,  // rates for a bench row, about half a second
  full,   // all rates, about three seconds
};

// Calls `measure` and returns its rate. If it throws Error(unsupported), for example without cuBLAS, stores the message
// in `refusal` and returns nullopt. Rethrows other errors.
std::optional<double> rate_where_supported(const std::function<double()>& measure, std::string& refusal);

// Measures the rates of the CPU, for `types` and fp32.
Ceilings measure_ceilings(int threads, std::span<const DType> types, Depth depth);

// Measures the current GPU's copy rate and cuBLAS's GEMM in `types`, about 100 ms each. Depth::full adds TF32 and the
// call cost.
Ceilings measure_gpu_ceilings(std::span<const DType> types, Depth depth);

// Measures the rates of the cases' device, for all their dtypes. All cases must have the same device and number of
// threads.
Ceilings ceilings_for(std::span<const AttentionCase> cases, Depth depth);

inline constexpr DType kAllTypes[] = {DType::fp32, DType::fp16, DType::bf16};

Json ceilings_json(const Ceilings& ceilings);
Json gpu_ceilings_json(const Ceilings& ceilings);  // the GPU's rates for `strobe env`

// environment_json() of measure/ plus instruction sets and ceilings.
Json full_environment(const Ceilings& ceilings);

}  // namespace strobe::bench
