// Rung `cpu-library`: the library's CPU kernel on all cores. It uses SIMD and packed tiles, and distributes row blocks
// to threads (docs/kernels-cpu.md).
#include "core/clock.h"
#include "lab/cpu/runs.h"
#include "strobe/attention.h"

namespace strobe::lab {

Split run_cpu_library(const RungProblem& problem, float* o) {
  const double start = now_seconds();
  const std::array<std::int64_t, 4> shape{problem.batch, 1, problem.rows, problem.dim};
  const auto input = [&](const float* data) { return view_bhsd<const void>(data, DType::fp32, shape); };
  forward({.q = input(problem.q), .k = input(problem.k), .v = input(problem.v)},
          {.o = view_bhsd<void>(o, DType::fp32, shape)});
  const double seconds = now_seconds() - start;
  return {.total = seconds, .kernel = seconds};
}

}  // namespace strobe::lab
