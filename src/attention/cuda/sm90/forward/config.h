// Tiles of the Hopper forward: pure functions of the problem and the card, for kernel, launch, explain and tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe::cuda::sm90 {

struct HeadDims {
  int d, dv;  // of q and k, of v and o
};

// Two or three warpgroups multiply, one warp more loads for all of them.
struct ForwardShape {
  int consumers;  // warpgroups that multiply, each with 64 rows
  int keys;       // of a tile
  int stages;     // tiles of K, and of V, in shared memory
  int q_stages;   // tiles of Q likewise: with two the next one comes while the last is worked on
};

constexpr int rows_of(const ForwardShape& shape) { return 64 * shape.consumers; }
constexpr int threads_of(const ForwardShape& shape) { return 128 * (shape.consumers + 1); }

// Registers of a thread that multiplies, and of one that loads: 64 K in all.
constexpr int consumer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 160 : 240; }
constexpr int producer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 32 : 24; }

// Head dimensions that have a kernel; smaller ones are padded to the next, by the copy engine.
inline constexpr HeadDims kForwardDims[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};

// Small tiles for short sequences, large ones for long: docs/notes/2026-11-15-hopper.md has the figures.
constexpr ForwardShape forward_shape(HeadDims dims, bool large) {
  if (dims.d <= 64) return large ? ForwardShape{3, 128, 2, 2} : ForwardShape{2, 128, 2, 2};
  if (dims.d <= 128) return large && dims.d == 128 ? ForwardShape{2, 176, 2, 1} : ForwardShape{2, 128, 2, 2};
  if (dims.d <= 192) return {2, 112, 2, 1};
  return {2, 80, 2, 1};
}

// Shared memory: the stages of Q, those of K, of V, then 128 bytes of barriers and 16 for each tile of Q.
constexpr std::size_t forward_shared_bytes(HeadDims dims, const ForwardShape& shape) {
  const auto slabs = [](int columns) { return static_cast<std::size_t>((columns + 63) / 64 * 128); };
  return slabs(dims.d) * (shape.q_stages * rows_of(shape) + shape.stages * shape.keys) +
         slabs(dims.dv) * shape.stages * shape.keys + 160;
}

struct ForwardFacts {
  int d = 0, dv = 0;
  std::int64_t max_q = 0, max_k = 0;
  bool uneven = false;  // rows see different numbers of keys: a mask, or lengths
};

struct ForwardConfig {
  HeadDims dims{};  // padded
  bool large = false;
  ForwardShape shape{};
  std::size_t shared_bytes = 0;
};

// Head dimensions of at most 256.
constexpr ForwardConfig forward_config(const ForwardFacts& facts) {
  ForwardConfig config;
  for (const HeadDims dims : kForwardDims) {
    config.dims = dims;
    if (facts.d <= dims.d && facts.dv <= dims.dv) break;
  }
  if (config.dims.d == 64) config.large = facts.max_q > (facts.uneven ? 1024 : 256);
  if (config.dims.d == 128) config.large = facts.max_k >= (facts.uneven ? 8192 : 2048);
  config.shape = forward_shape(config.dims, config.large);
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
