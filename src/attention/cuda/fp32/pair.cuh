// Score, probability and gradient of one (row, key) pair, computed by one warp. Lane l holds columns l, l + 32, ... of
// a row. Used by forward.cu and backward.cu.
#pragma once

#include "attention/cuda/device/options.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda::fp32 {

inline constexpr int kWarps = 4;   // warps per block
inline constexpr int kSlices = 8;  // 32 columns each: head dimensions up to 256

// This lane's columns of one row.
struct Row {
  float at[kSlices];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int t = 0; t < kSlices; ++t) at[t] = 0;
  }

  __device__ __forceinline__ void load(const Tensor& tensor, std::int64_t offset, int columns) {
    const float* from = static_cast<const float*>(tensor.data) + offset;
#pragma unroll
    for (int t = 0; t < kSlices; ++t) {
      const int c = t * kWarpLanes + lane_index();
      at[t] = c < columns ? from[c * tensor.column] : 0;
    }
  }

  __device__ __forceinline__ void store(const Tensor& tensor, std::int64_t offset, int columns, float factor) const {
    float* to = static_cast<float*>(tensor.data) + offset;
#pragma unroll
    for (int t = 0; t < kSlices; ++t) {
      const int c = t * kWarpLanes + lane_index();
      if (c < columns) to[c] = at[t] * factor;
    }
  }

  __device__ __forceinline__ void add(float factor, const Row& row) {
#pragma unroll
    for (int t = 0; t < kSlices; ++t) at[t] = fmaf(factor, row.at[t], at[t]);
  }
};

// Sums many rows in two levels to reduce the rounding error: 32 rows per partial sum, then the partial sums.
struct RowSum {
  Row total, part;
  int pending;

  __device__ __forceinline__ void clear() {
    total.clear();
    part.clear();
    pending = 0;
  }

  __device__ __forceinline__ void add(float factor, const Row& row) {
    part.add(factor, row);
    if (++pending == 32) flush();
  }

  __device__ __forceinline__ void flush() {
    total.add(1, part);
    part.clear();
    pending = 0;
  }

  __device__ __forceinline__ void shrink(float factor) {
#pragma unroll
    for (int t = 0; t < kSlices; ++t) total.at[t] *= factor, part.at[t] *= factor;
  }
};

// Kahan sum of scalars: it compensates the error of each addition.
struct Sum {
  float total = 0, error = 0;

  __device__ __forceinline__ void add(float value) {
    const float y = value - error;
    const float t = total + y;
    error = (t - total) - y;
    total = t;
  }

  __device__ __forceinline__ void shrink(float factor) { total *= factor, error *= factor; }
};

__device__ __forceinline__ float dot(const Row& a, const Row& b) {
  float sum = 0;
#pragma unroll
  for (int t = 0; t < kSlices; ++t) sum = fmaf(a.at[t], b.at[t], sum);
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) sum += shuffle_xor(sum, step);
  return sum;
}

struct Score {
  float value, slope;  // slope: derivative of the softcap
};

// Score of row i and key j, in natural units.
__device__ __forceinline__ Score score_of(const Params& p, const HeadScoreOptions& options,
                                          const PaddedSequence& sequence, int i, int j, float q_dot_k) {
  Score score{multiply_rounded(q_dot_k, p.scale), 1};
  if (p.softcap != 0) {
    const float t = tanhf(q_dot_k * (p.scale / p.softcap));
    score = {multiply_rounded(p.softcap, t), 1 - t * t};
  }
  if (options.slope != 0) {
    score.value = fmaf(-options.slope, static_cast<float>(abs(i + sequence.offset - j)), score.value);
  }
  if (options.bias.data) score.value += reinterpret_cast<const float*>(options.bias.data)[i * options.bias.row + j];
  return score;
}

// True if a boolean mask excludes the pair. Kernels then load no element of it.
__device__ __forceinline__ bool masked(const HeadScoreOptions& options, int i, int j) {
  return options.mask.data && !options.mask.allows(i, j);
}

// Dropout factor of a probability.
__device__ __forceinline__ float kept(const Params& p, const HeadScoreOptions& options, int i, int j) {
  if (p.dropout_threshold == 0) return 1;
  return options.philox.keeps(i, j, p.dropout_threshold) ? p.dropout_scale : 0;
}

// Row (or key), head and sequence of this warp; the warps of a block process adjacent rows.
struct WarpPlace {
  int b, head, i;

  __device__ __forceinline__ WarpPlace(int rows, int heads) {
    const unsigned blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
    unsigned index = blockIdx.x;
    i = static_cast<int>(index % blocks) * kWarps + warp_index();
    index /= blocks;
    head = static_cast<int>(index % static_cast<unsigned>(heads));
    b = static_cast<int>(index / static_cast<unsigned>(heads));
  }
};

// Number of blocks for `rows` rows (or keys) of each of `units` heads.
inline std::int64_t blocks_for(std::int64_t rows, std::int64_t units) { return (rows + kWarps - 1) / kWarps * units; }

}  // namespace strobe::cuda::fp32
