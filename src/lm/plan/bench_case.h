// BenchCase describes a training step, or a part of one, to measure or predict.
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
  int warmup = 5, steps = 10;
  std::string attention{};  // kernel name; empty: the library chooses
  Recompute recompute = Recompute::none;
  double clip = 0;
  ops::ExecutionContext execution{};
  std::optional<GradientMemory> gradients{};  // absent: the default of the pass
};

ops::ExecutionContext place_of(const BenchCase& one);  // one.place with tf32 set if the precision is tf32
GradientMemory gradient_memory_of(const BenchCase& one);
TransformerOptions transformer_options(const BenchCase& one);

// Returns the FLOPs of the matmuls. A forward has, per token, 2 per parameter that matmuls read, and 2 S d per layer
// for attention (S: context, d: d_model), whose two matmuls cover the causal half of the scores. A backward has twice
// as many. Recomputation does not count.
double flops_of(const BenchCase& one);

}  // namespace strobe::lm
