// Tiles of the Hopper forward: pure functions of the problem and the card, for kernel, launch, explain and tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/sm90/forward/rules.h"

namespace strobe::cuda::sm90 {

constexpr int rows_of(const ForwardShape& shape) { return 64 * shape.consumers; }
constexpr int threads_of(const ForwardShape& shape) { return 128 * (shape.consumers + 1); }

// Registers of a thread that multiplies, and of one that loads: 64 K in all.
constexpr int consumer_registers(const ForwardShape& shape) {
  return shape.consumers == 4 ? 112 : shape.consumers == 3 ? 160 : 240;
}
constexpr int producer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 32 : 24; }

// In shared memory: of a stage, one for "full" and one for "free".
constexpr int forward_barriers(const ForwardShape& shape) { return 2 * shape.q_stages + 4 * shape.stages; }

// Head dimensions that have a kernel; smaller ones are padded to the next, by the copy engine.
inline constexpr HeadDims kForwardDims[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};

// The stages of Q, those of K, of V, the barriers, then 16 bytes for each tile of Q.
constexpr std::size_t forward_shared_bytes(HeadDims dims, const ForwardShape& shape) {
  const auto slabs = [](int columns) { return static_cast<std::size_t>((columns + 63) / 64 * 128); };
  return slabs(dims.d) * (shape.q_stages * rows_of(shape) + shape.stages * shape.keys) +
         slabs(dims.dv) * shape.stages * shape.keys + forward_barriers(shape) * 8 + shape.q_stages * 16;
}

struct ForwardFacts {
  int d = 0, dv = 0;
  std::int64_t max_k = 0;
  bool uneven = false;  // as in ForwardRule
};

struct ForwardConfig {
  HeadDims dims{};  // padded
  ForwardShape shape{};
  std::size_t shared_bytes = 0;
};

// Whether every problem has a rule.
constexpr bool forward_rules_are_whole() {
  for (const HeadDims dims : kForwardDims) {
    for (const bool uneven : {false, true}) {
      bool found = false;
      for (const ForwardRule& rule : kForwardRules) {
        found = found || (rule.dims == dims && rule.uneven == uneven && rule.least_keys == 0);
      }
      if (!found) return false;
    }
  }
  return true;
}
static_assert(forward_rules_are_whole());

// Head dimensions of at most 256.
constexpr ForwardConfig forward_config(const ForwardFacts& facts) {
  ForwardConfig config;
  for (const HeadDims dims : kForwardDims) {
    config.dims = dims;
    if (facts.d <= dims.d && facts.dv <= dims.dv) break;
  }
  for (const ForwardRule& rule : kForwardRules) {
    if (rule.dims == config.dims && rule.uneven == facts.uneven && facts.max_k >= rule.least_keys) {
      config.shape = rule.shape;
      break;
    }
  }
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
