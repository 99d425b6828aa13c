// Random tokens for tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

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

}  // namespace strobe::lm
