// Architectures, random tokens and a float64 cross entropy for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

inline const std::vector<Architecture> kArchitectures = [] {
  std::vector<Architecture> all;
  for (const std::string& name : architecture_names()) all.push_back(architecture_of(name));
  return all;
}();

constexpr ModelShape as(Architecture architecture, ModelShape shape) {
  shape.architecture = architecture;
  return shape;
}

struct Text {
  std::vector<std::int32_t> tokens, targets;
  Text(const ModelShape& shape, std::int64_t batch, unsigned seed) {
    std::mt19937 rng(seed);
    const auto draw = [&] { return static_cast<std::int32_t>(rng() % static_cast<unsigned>(shape.vocabulary)); };
    for (std::int64_t t = 0; t < batch * shape.context; ++t) {
      tokens.push_back(draw());
      targets.push_back(draw());
    }
  }
};

// Returns -log of the probability of `target`, in float64.
inline double cross_entropy(std::span<const float> logits, std::int32_t target) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

}  // namespace strobe::lm
