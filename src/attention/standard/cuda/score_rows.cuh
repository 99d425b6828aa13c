// Device code shared by the .cu files of this folder: rows of a score matrix and block reductions.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/cuda/device/dropout.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/standard/cuda/rows.h"
#include "device/cuda/element.cuh"

namespace strobe::standard {

using cuda::BackwardParams;
using cuda::narrowed;
using cuda::OutputParams;
using cuda::Params;
using cuda::SequenceParams;
using cuda::widened;
using cuda::with_element;

// Rounds x to T and converts it back to float.
template <class T>
__device__ float rounded(float x) {
  return widened(narrowed<T>(x));
}

// Queries or keys of one sequence: rows [begin, begin + length) of a packed tensor, or of the sequence in a padded one.
// Keys before first_valid are left padding.
struct Extent {
  std::int64_t begin;
  std::int32_t length, first_valid;
};

__device__ inline Extent extent_of(const SequenceParams& params, cuda::Indices first_keys, Side side, std::int64_t b) {
  const cuda::PaddedSequence sequence(cuda::Sequence(params, static_cast<int>(b)), first_keys, static_cast<int>(b));
  return side == Side::queries ? Extent{sequence.q_begin, sequence.seqlen_q, 0}
                               : Extent{sequence.k_begin, sequence.seqlen_k, sequence.first_valid};
}

// One row of the score matrix: its position and the keys [lo, hi) that it may use. lo and hi are 0 if there are none.
struct Row {
  std::int32_t b, h, i;
  std::int64_t q_begin;
  std::int32_t seqlen_q;
  std::int32_t lo, hi;
  std::int32_t diagonal;  // the key with which the row is aligned
};

__device__ inline Row row_of(const SequenceParams& params, std::int64_t index, cuda::Indices first_keys = {}) {
  Row row;
  row.i = static_cast<std::int32_t>(index % params.max_seqlen_q);
  const std::int64_t head = index / params.max_seqlen_q;
  row.h = static_cast<std::int32_t>(head % params.heads_q);
  row.b = static_cast<std::int32_t>(head / params.heads_q);
  const cuda::PaddedSequence sequence(cuda::Sequence(params, row.b), first_keys, row.b);
  row.q_begin = sequence.q_begin;
  row.seqlen_q = sequence.seqlen_q;
  row.diagonal = row.i + sequence.offset;
  const cuda::Keys keys = sequence.allowed(row.i);
  const bool none = row.i >= row.seqlen_q || keys.lo >= keys.hi;
  row.lo = none ? 0 : keys.lo;
  row.hi = none ? 0 : keys.hi;
  return row;
}

// Index of the row in LSE, for rows within their sequence's length.
__device__ inline std::int64_t lse_index(const SequenceParams& params, const Row& row) {
  const std::int64_t head = params.packed ? row.h : static_cast<std::int64_t>(row.b) * params.heads_q + row.h;
  return head * params.total_q + row.q_begin + row.i;
}

// Returns the first key of this thread that the row may use. Key j always belongs to thread j % blockDim.x, so a thread
// reads only what it wrote itself in an earlier loop.
__device__ inline std::int32_t first_key(const Row& row) {
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t j = row.lo / threads * threads + static_cast<std::int32_t>(threadIdx.x);
  return j < row.lo ? j + threads : j;
}

__device__ inline bool allows(const cuda::MaskTensor& mask, const Row& row, std::int32_t j) {
  return mask.data[row.b * mask.batch + row.h * mask.head + row.i * mask.row + j * mask.key] != 0;
}

__device__ inline bool keeps(const cuda::ScoreParams& params, const Row& row, std::int32_t j) {
  return cuda::Philox(params.philox_keys, row.b, row.h).keeps(row.i, j, params.dropout_threshold);
}

// Returns the larger value, or NaN if either is NaN.
__device__ inline float larger(float a, float b) { return a > b || isnan(a) ? a : b; }

struct Larger {
  __device__ float operator()(float a, float b) const { return larger(a, b); }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Reduces one value per thread over the block, in a fixed order. All threads get the same result. `scratch` has room
// for 32 floats and may be reused after the call.
template <class Combine>
__device__ float over_block(float x, Combine combine, float* scratch) {
  for (int step = 16; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
  const int warps = blockDim.x / 32;
  if (warps == 1) return x;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float all = scratch[0];
  for (int warp = 1; warp < warps; ++warp) all = combine(all, scratch[warp]);
  __syncthreads();
  return all;
}

// Returns the number of threads per block for a row with `keys` keys.
inline unsigned threads_for(std::int64_t keys) { return keys <= 64 ? 32 : keys <= 1024 ? 128 : 256; }

// Returns the number of blocks for `rows` rows: one per row up to 2^30. Kernels loop over rows with a stride of
// gridDim.x.
inline unsigned blocks_for(std::int64_t rows) { return static_cast<unsigned>(rows < (1 << 30) ? rows : 1 << 30); }

}  // namespace strobe::standard
