// BenchCase describes a training step, or a part of one, to measure or predict. `strobe lm bench`, `lm memory`, `lm
// profile` and `plan` use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lm/models/transformer.h"

namespace strobe::lm {

enum class BenchPass { forward, forward_backward, step };

struct BenchCase {
  ModelShape shape;
  std::int64_t batch = 4;
  Precision precision = Precision::fp32;
  BenchPass pass = BenchPass::step;
  int warmup = 5, steps = 10;  // number of warm-up steps and of timed steps
  std::string attention{};     // kernel name; empty: the library chooses
  Recompute recompute = Recompute::none;
  double clip = 0;  // largest gradient norm; 0: no clipping
  ops::ExecutionContext execution{};
  std::optional<GradientMemory> gradients{};  // absent: the default of the pass
};

ops::ExecutionContext place_of(const BenchCase& one);  // one.execution, with tf32 set by the precision
GradientMemory gradient_memory_of(const BenchCase& one);
TransformerOptions transformer_options(const BenchCase& one);

// Returns the FLOPs of the matmuls. Per token, a forward has 2 FLOPs for each parameter of a linear layer, plus 2 S d
// per layer for attention (S: context, d: d_model). Attention has two matmuls over the causal half of the scores. A
// backward has twice the FLOPs of a forward. Recomputation does not count.
double flops_of(const BenchCase& one);

}  // namespace strobe::lm
