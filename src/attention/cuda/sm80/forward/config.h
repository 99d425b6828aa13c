// Tile configuration of flash2's forward: a function of the problem and the GPU, used by the kernel, its launch and
// tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/device/split_format.h"

namespace strobe::cuda::sm80 {

// Kinds of kernels:
// plain: every row is 16-byte vectors, no score options.
// options: the same with score options except a boolean mask, in tiles of 64 rows. For 16-bit types only; a bias must
// have that type and rows of 16-byte vectors.
// general: every problem, with at most 99 KB of shared memory.
// small: plain with tiles of 64 rows, for few rows (decoding) and for short causal problems, in which larger tiles
// would leave multiprocessors idle.
enum class ForwardKind { plain, options, general, small };

struct ForwardShape {
  int rows, keys;       // rows of Q, and rows of K and V, per tile
  int warps;            // each owns rows / warps rows, 16 or 32
  int blocks;           // resident blocks per multiprocessor that __launch_bounds__ requests
  bool q_in_registers;  // Q stays in registers during the whole loop over the keys
};

// Head dimensions that have a kernel; smaller ones are padded to the next.
inline constexpr int kPlainDims[] = {32, 64, 96, 128, 192, 256};
inline constexpr int kOptionsDims[] = {64, 128};
inline constexpr int kGeneralDims[] = {64, 128, 256};
inline constexpr int kPlainFp32Dims[] = {32, 64};  // larger dimensions use general kernels

constexpr ForwardShape forward_shape(int d, ForwardKind kind, SplitFormat split_format) {
  if (has_scales(split_format)) return {128, d <= 32 ? 64 : 32, 8, 2, false};
  if (split_format == SplitFormat::full) {
    if (d <= 32) return {128, 64, 8, 2, false};
    if (d <= 64) return {128, 32, 8, 2, false};
    if (d <= 128) return {64, 32, 4, 2, false};
    return {32, 16, 2, 2, false};
  }
  if (kind != ForwardKind::plain) {
    return d <= 128 ? ForwardShape{64, 64, 4, 3, false} : ForwardShape{64, 64, 4, 2, false};
  }
  if (d <= 64) return {128, 64, 4, 2, true};
  if (d <= 128) return {128, 64, 4, 2, false};
  return {64, 64, 4, 2, false};
}

// Shared memory: the Q tile, `stages` tiles of K and of V, then one scale per row of these tiles if
// has_scales(split_format). `options` kernels place the bias of a tile of scores after the tiles of K and V.
constexpr std::size_t forward_shared_bytes(int d, const ForwardShape& shape, SplitFormat split_format, int stages) {
  return static_cast<std::size_t>(2 * terms_of(split_format) * d + (has_scales(split_format) ? 4 : 0)) *
         (shape.rows + 2 * stages * shape.keys);
}

constexpr std::size_t forward_bias_bytes(const ForwardShape& shape) {
  return 2 * static_cast<std::size_t>(shape.rows * shape.keys);
}

struct ForwardFacts {
  bool fp32 = false;
  bool tf32 = false;  // may round fp32 elements
  int d = 0, dv = 0;
  bool options = false;       // has score options
  bool bias = false;          // the score options include a bias
  bool general = false;       // needs a feature that only the general kernel has
  bool triangle = false;      // keys are bounded on the right, by a causal mask or a window
  bool unsplittable = false;  // keys must not be split: partial results would lose accuracy
  std::int64_t batch = 0, heads_q = 0, heads_kv = 0;
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;
  std::size_t shared_bytes_per_block = 0;
  int multiprocessors = 1;
};

struct ForwardConfig {
  ForwardKind kind = ForwardKind::plain;
  SplitFormat split_format = SplitFormat::whole;
  int d = 0;             // padded head dimension
  int stages = 1;        // pipeline stages of K and V
  int splits = 1;        // split-K: blocks per row tile
  int packed_heads = 1;  // query heads of a group that share a tile as additional rows
  std::size_t shared_bytes = 0;
  ForwardShape shape{};
};

ForwardConfig forward_config(const ForwardFacts& facts);

}  // namespace strobe::cuda::sm80
