// Computes FLOPs, gradient memory and execution context of a BenchCase.
#include "lm/plan/bench_case.h"

namespace strobe::lm {

ops::ExecutionContext place_of(const BenchCase& one) {
  ops::ExecutionContext execution = one.execution;
  execution.tf32 = one.precision == Precision::tf32;
  return execution;
}

GradientMemory gradient_memory_of(const BenchCase& one) {
  if (one.gradients) return *one.gradients;
  if (one.pass == BenchPass::forward) return GradientMemory::none;
  return one.pass == BenchPass::step ? step_memory(one.shape, dtype_of(one.precision)) : GradientMemory::shared;
}

TransformerOptions transformer_options(const BenchCase& one) {
  return {.shape = one.shape,
          .batch = one.batch,
          .dtype = dtype_of(one.precision),
          .attention = one.attention,
          .gradients = gradient_memory_of(one),
          .recompute = one.recompute};
}

double flops_of(const BenchCase& one) {
  const ModelShape& shape = one.shape;
  const auto scores = static_cast<double>(2 * shape.layers * shape.context * shape.d_model);  // half of 2 x 2 S d
  const double forward = static_cast<double>(one.batch * shape.context) *
                         (2 * static_cast<double>(matmul_parameter_count(shape)) + scores);
  return one.pass == BenchPass::forward ? forward : 3 * forward;
}

}  // namespace strobe::lm
