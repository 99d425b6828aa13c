// Tile configuration of flash2's backward: constexpr functions of the problem and the GPU, used by kernels, launch and
// tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/cuda/device/split_format.h"

namespace strobe::cuda::sm80 {

// Kinds of kernels:
// plain: every row is 16-byte vectors, no score options.
// options: the same tiles with score options except a boolean mask, for which they have no registers. For 16-bit types
// only; a bias must have that type and rows of 16-byte vectors.
// general: every problem. 16-bit types need at most 99 KB of shared memory. fp32 needs more above head dimension 64,
// and runs on CUDA cores (fp32/) if the GPU has less.
enum class BackwardKind { plain, options, general };

// A block owns `keys` keys and loops over tiles of `rows` rows. Each kind of matmul distributes its result over a grid
// of warps. score_warps, gradient_warps and dq_warps are the numbers of warps along the first dimension of the result.
struct BackwardShape {
  int rows, keys, warps;
  int score_warps;      // scores     [rows x keys]
  int gradient_warps;   // dK and dV  [keys x head dimension]
  int dq_warps;         // dQ         [rows x head dimension]
  int score_parts = 1;  // passes over the keys of a warp's score tile, to free registers for options
};

inline constexpr int kBackwardPlainDims[] = {32, 64, 96, 128, 192, 256};
inline constexpr int kBackwardOptionsDims[] = {64, 128};
inline constexpr int kBackwardGeneralDims[] = {32, 64, 128, 256};
inline constexpr int kBackwardGeneralFp32Dims[] = {64, 128, 256};
inline constexpr int kBackwardPlainFp32Dims[] = {32, 64};  // larger dimensions use general kernels

constexpr BackwardShape backward_shape(int d, BackwardKind kind, SplitFormat split_format) {
  if (has_scales(split_format)) return {64, 64, 4, 2, 2, 2};
  if (split_format == SplitFormat::full) {
    if (d <= 32) return {64, 64, 4, 2, 2, 2};
    if (d <= 64) return {32, 64, 4, 2, 2, 2};
    return {32, 32, 4, 2, 1, 1};
  }
  if (kind == BackwardKind::general) {
    if (d <= 32) return {64, 128, 8, 2, 4, 4};
    if (d <= 64) return {64, 128, 8, 2, 4, 2};
    if (d <= 128) return {64, 64, 8, 4, 2, 2};
    return {32, 32, 4, 2, 1, 1};
  }
  if (d <= 64) return {128, 128, 8, 4, 4, 4, kind == BackwardKind::options ? 2 : 1};
  if (d <= 96) return {64, 128, 8, 2, 4, 4};
  if (d <= 128) return {64, 128, 8, 2, 2, 2};
  return {64, 64, 8, 4, 2, 2};
}

// Shared memory: K and V, `stages` tiles of Q and of dO, probabilities and score gradients.
constexpr std::size_t backward_shared_bytes(int d, const BackwardShape& shape, SplitFormat split_format, int stages) {
  return static_cast<std::size_t>(2 * terms_of(split_format)) *
         (static_cast<std::size_t>(d) * (2 * shape.keys + 2 * stages * shape.rows) + 2 * shape.rows * shape.keys);
}

// Shared memory of the scales, which follow the tiles if has_scales(split_format): one power of two per 16 rows of Q,
// dO, K and V. Warps divide the keys, so probabilities and score gradients have one per 16 rows and warp.
constexpr std::size_t backward_scale_bytes(const BackwardShape& shape) {
  const int pieces = shape.warps / shape.score_warps;
  return sizeof(float) * static_cast<std::size_t>((2 * shape.rows + 2 * shape.keys + 2 * shape.rows * pieces) / 16);
}

// Shared memory of the bias of a tile of scores. `options` kernels with a bias place it after backward_shared_bytes().
constexpr std::size_t backward_bias_bytes(const BackwardShape& shape) {
  return 2 * static_cast<std::size_t>(shape.rows * shape.keys);
}

struct BackwardFacts {
  bool fp32 = false;
  bool tf32 = false;  // may round fp32 elements
  int d = 0, dv = 0;
  bool options = false;  // has score options
  bool bias = false;     // the score options include a bias
  bool general = false;  // needs a feature that only the general kernel has
  std::size_t shared_bytes_per_block = 0;
};

struct BackwardConfig {
  BackwardKind kind = BackwardKind::plain;
  int d = 0;  // padded head dimension
  SplitFormat split_format = SplitFormat::whole;
  int stages = 1;  // pipeline stages of Q and dO
  std::size_t shared_bytes = 0;
  BackwardShape shape{};
};

template <std::size_t kCount>
constexpr int padded_dim(const int (&dims)[kCount], int d) {
  for (const int dim : dims) {
    if (d <= dim) return dim;
  }
  return dims[kCount - 1];
}

constexpr BackwardConfig planned(BackwardKind kind, int d, const BackwardFacts& facts) {
  BackwardConfig config;
  config.kind = kind;
  config.d = d;
  if (facts.fp32) config.split_format = fp32_split_format(kind == BackwardKind::plain, facts.tf32);
  config.shape = backward_shape(d, kind, config.split_format);
  const std::size_t more = has_scales(config.split_format)               ? backward_scale_bytes(config.shape)
                           : kind == BackwardKind::options && facts.bias ? backward_bias_bytes(config.shape)
                                                                         : 0;
  const auto bytes = [&](int stages) {
    return backward_shared_bytes(d, config.shape, config.split_format, stages) + more;
  };
  // fp32 is loaded through registers and has no copies in flight.
  config.stages = !facts.fp32 && bytes(2) <= facts.shared_bytes_per_block ? 2 : 1;
  config.shared_bytes = bytes(config.stages);
  return config;
}

// Configuration with three terms per element. Kernels of this configuration replace fp32 kernels with scales if those
// would lose bits (sm80/rows.cu).
constexpr BackwardConfig exact_config(int d) {
  return planned(BackwardKind::general, padded_dim(kBackwardGeneralFp32Dims, d), {.fp32 = true});
}

constexpr BackwardConfig backward_config(const BackwardFacts& facts) {
  const int d = std::max(facts.d, facts.dv);
  if (facts.options && !facts.general && !facts.fp32 && d <= 128) {
    const BackwardConfig config = planned(BackwardKind::options, padded_dim(kBackwardOptionsDims, d), facts);
    if (config.shared_bytes <= facts.shared_bytes_per_block) return config;
  }
  if (!facts.options && !facts.general && (!facts.fp32 || d <= 64)) {
    const int dim = facts.fp32 ? padded_dim(kBackwardPlainFp32Dims, d) : padded_dim(kBackwardPlainDims, d);
    const BackwardConfig config = planned(BackwardKind::plain, dim, facts);
    const std::size_t bytes =
        std::max(config.shared_bytes, has_scales(config.split_format) ? exact_config(d).shared_bytes : 0);
    if (bytes <= facts.shared_bytes_per_block) return config;
  }
  const int dim = facts.fp32 ? padded_dim(kBackwardGeneralFp32Dims, d) : padded_dim(kBackwardGeneralDims, d);
  return planned(BackwardKind::general, dim, facts);
}

}  // namespace strobe::cuda::sm80
