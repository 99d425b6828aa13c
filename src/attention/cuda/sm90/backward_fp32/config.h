// Tiles of the Hopper backward for fp32: pure functions of the problem, for kernels, launch, explain and tests. An
// element is held as two fp16 parts of itself times a power of two (device/parts.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/sm90/backward/config.h"

namespace strobe::cuda::sm90 {

// Columns are padded to 64. Up to 32 it is ahead of flash2 only where there are many keys, up to 24 nobody has measured
// it; flash2 serves those.
inline constexpr int kFewFp32BackwardDims = 32, kFewestFp32BackwardDims = 24;
inline constexpr std::int64_t kManyFp32BackwardKeys = 512;

inline constexpr int kMostFp32BackwardDim = 128;

// Registers of a thread that multiplies, and of one that loads; see kBackwardConsumerRegisters.
inline constexpr int kFp32ConsumerRegisters = 232, kFp32LoaderRegisters = 40;
static_assert(kBackwardConsumers * kFp32ConsumerRegisters + kFp32LoaderRegisters <=
              65536 / kBackwardThreads / 8 * 8 * (kBackwardConsumers + 1));

// As in 16 bits a block owns 128 keys, 64 for each of two warpgroups, and walks tiles of rows. So few rows at head
// dimension 128 that registers hold, beside dK and dV, what is summed for a tile.
inline constexpr int kFp32BackwardKeys = 128;
constexpr BackwardShape fp32_backward_shape(int d) { return {d <= 64 ? 64 : 32, kFp32BackwardKeys}; }

// Both parts of one row or key.
constexpr std::size_t fp32_part_bytes(int d) { return static_cast<std::size_t>(4 * d); }

// Gradients of scores of a warpgroup's keys: a part is [64 keys][64 rows], of which 32 may be used.
inline constexpr std::size_t kFp32GradientBytes = 64 * 128;

// LSE, delta and scales of a stage's rows.
constexpr std::size_t fp32_fact_bytes(const BackwardShape& shape) {
  return static_cast<std::size_t>(16 * shape.rows + 16);
}

// Shared memory: K, V, the stages of Q and dO, gradients of scores of each warpgroup, facts, what warps tell each
// other, barriers.
constexpr std::size_t fp32_backward_shared_bytes(int d, const BackwardShape& shape) {
  return fp32_part_bytes(d) * static_cast<std::size_t>(2 * shape.keys + 2 * kBackwardStages * shape.rows) +
         kBackwardConsumers * 2 * kFp32GradientBytes + kBackwardStages * fp32_fact_bytes(shape) + 256;
}

// d: the larger head dimension, at most kMostFp32BackwardDim.
constexpr BackwardConfig fp32_backward_config(int d) {
  BackwardConfig config;
  config.d = d <= 64 ? 64 : kMostFp32BackwardDim;
  config.shape = fp32_backward_shape(config.d);
  config.shared_bytes = fp32_backward_shared_bytes(config.d, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
