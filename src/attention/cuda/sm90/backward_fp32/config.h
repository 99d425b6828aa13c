// Tile configuration of the Hopper backward for fp32: constexpr functions of the problem, used by the kernels, their
// launch, `strobe explain` and tests. The kernels represent each element, times a power of two, by two fp16 floats
// (device/split_format.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/sm90/backward/config.h"

namespace strobe::cuda::sm90 {

// flash2 runs small head dimensions, because this kernel pads columns to 64. Up to dimension 32 this kernel is faster
// only with many keys. Up to 24 it has not been measured.
inline constexpr int kFewFp32BackwardDims = 32, kFewestFp32BackwardDims = 24;
inline constexpr std::int64_t kManyFp32BackwardKeys = 512;

inline constexpr int kMostFp32BackwardDim = 128;

// Registers per consumer thread and per loader thread; see kBackwardConsumerRegisters.
inline constexpr int kFp32ConsumerRegisters = 232, kFp32LoaderRegisters = 40;
static_assert(kBackwardConsumers * kFp32ConsumerRegisters + kFp32LoaderRegisters <=
              65536 / kBackwardThreads / 8 * 8 * (kBackwardConsumers + 1));

// As in the 16-bit kernel, a block owns 128 keys, 64 per warpgroup, and loops over row tiles. At head dimension 128 a
// tile has only 32 rows, so that registers can hold a tile's sum in addition to dK and dV.
inline constexpr int kFp32BackwardKeys = 128;
constexpr BackwardShape fp32_backward_shape(int d) { return {d <= 64 ? 64 : 32, kFp32BackwardKeys}; }

// Bytes of both split floats of one row or key.
constexpr std::size_t fp32_split_bytes(int d) { return static_cast<std::size_t>(4 * d); }

// Bytes of the first, or of the second, split floats of a warpgroup's score gradients: [64 keys][64 rows] of fp16. Only
// 32 of the rows are used at head dimension 128.
inline constexpr std::size_t kFp32GradientBytes = 64 * 128;

// Bytes of the statistics (sm80::RowFacts) of a stage's rows, followed by the scales of Q, dO, K and V.
constexpr std::size_t fp32_fact_bytes(const BackwardShape& shape) {
  return static_cast<std::size_t>(16 * shape.rows + 16);
}

// Shared memory: K, V, the stages of Q and dO, score gradients of each warpgroup, row statistics, barriers, values
// exchanged between warps, work indices.
constexpr std::size_t fp32_backward_shared_bytes(int d, const BackwardShape& shape) {
  return fp32_split_bytes(d) * static_cast<std::size_t>(2 * shape.keys + 2 * kBackwardStages * shape.rows) +
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
