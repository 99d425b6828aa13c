// One training step, or a part of it, to be measured or predicted.
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
  std::string attention{};  // a kernel's name; empty: the library chooses
  Recompute recompute = Recompute::none;
  double clip = 0;
  ops::Place place{};
  std::optional<GradientMemory> gradients{};  // absent: as the pass needs
};

ops::Place place_of(const BenchCase& one);  // with the precision's tf32
GradientMemory gradient_memory_of(const BenchCase& one);
TransformerOptions transformer_options(const BenchCase& one);

// FLOPs of the matmuls: 2 per token and parameter that they read, and 2 S d per layer and token for each of attention's
// two matmuls on the causal half of the scores; the backward's are twice the forward's. Recomputation does not count.
double flops_of(const BenchCase& one);

}  // namespace strobe::lm
