// The kernel of rung `float4` with a switch for each idea before it. With all of them on it is that kernel; with one
// off, the rest stay as they are. The ladder's own files are for reading; this one is for leaving out. In an unnamed
// namespace: ablation.cu and ablation_precise.cu compile it with different flags.
#pragma once

#include "lab/cuda/ablation.h"
#include "lab/cuda/warp.cuh"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;

template <int kDim, Idea kWithout>
struct Block {
  static constexpr bool kPadded = kWithout != Idea::padded, kCoalesced = kWithout != Idea::coalesced;
  static constexpr bool kRegisters = kWithout != Idea::registers, kFloat4 = kWithout != Idea::float4;
  static constexpr int kPad = kPadded ? (kFloat4 ? 4 : 1) : 0;
  static constexpr int kStride = kDim + kPad, kWidth = kTile + kPad, kSquares = kDim / kTile;
  static constexpr int kUnroll = kWithout != Idea::unrolled ? kDim : 1;
  // Floats: Q, K, V [32][kStride], P [32][kWidth]; without registers also O, S, m and l.
  static constexpr int kShared =
      kTile * (3 * kStride + kWidth) + (kRegisters ? 0 : kTile * (kStride + kWidth) + 2 * kTile);

  float *q, *k, *v, *p;
  float *o, *s, *m, *l;  // of the state, where it does not stay in registers
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float scale;

  // Row y's: largest score, sum of weights, and columns x, x + 32 of the output, not yet divided by the sum.
  struct State {
    float m = -INFINITY, l = 0, o[kSquares] = {};
  };

  __device__ Block(float* memory, float scale) : scale(scale) {
    q = memory;
    k = q + kTile * kStride;
    v = k + kTile * kStride;
    p = v + kTile * kStride;
    o = p + kTile * kWidth;
    s = o + kTile * kStride;
    m = s + kTile * kWidth;
    l = m + kTile;
  }

  __device__ void load(float* tile, const float* global, std::int64_t pitch) const {
    if constexpr (kFloat4) {
      const int piece = y * kTile + x;
      const int row = kCoalesced ? piece / (kDim / 4) : x, c = 4 * (kCoalesced ? piece % (kDim / 4) : y);
      if (row < kTile && c < kDim) {
        *reinterpret_cast<float4*>(tile + row * kStride + c) =
            *reinterpret_cast<const float4*>(global + row * pitch + c);
      }
    } else {
#pragma unroll
      for (int h = 0; h < kDim; h += kTile) {
        const int row = kCoalesced ? y : x, c = h + (kCoalesced ? x : y);
        tile[row * kStride + c] = global[row * pitch + c];
      }
    }
  }

  // Of row y and key x.
  __device__ float score() const {
    float sum = 0;
    const float *row = q + y * kStride, *key = k + x * kStride;
    if constexpr (kFloat4) {
#pragma unroll(kUnroll)
      for (int c = 0; c < kDim; c += 4) {
        const float4 a = *reinterpret_cast<const float4*>(row + c), b = *reinterpret_cast<const float4*>(key + c);
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
      }
    } else {
#pragma unroll(kUnroll)
      for (int c = 0; c < kDim; ++c) sum += row[c] * key[c];
    }
    return sum * scale;
  }

  __device__ float row_max(float value) const {
    float largest = value;
    if constexpr (kRegisters) {
      largest = warp_max(value);
    } else {
      s[y * kWidth + x] = value;
      __syncwarp();
#pragma unroll(kUnroll)
      for (int c = 0; c < kTile; ++c) largest = fmaxf(largest, s[y * kWidth + c]);
    }
    return largest;
  }

  // P holds the weights already.
  __device__ float row_sum(float weight) const {
    float sum = 0;
    if constexpr (kRegisters) {
      sum = warp_sum(weight);
    } else {
#pragma unroll(kUnroll)
      for (int c = 0; c < kTile; ++c) sum += p[y * kWidth + c];
    }
    return sum;
  }

  // One tile of keys.
  __device__ void attend(State& state) const {
    const float value = score();
    const float highest = fmaxf(state.m, row_max(value));
    const float before = expf(state.m - highest), weight = expf(value - highest);
    p[y * kWidth + x] = weight;
    __syncwarp();  // row y is this warp's alone
    state.l = before * state.l + row_sum(weight);
    state.m = highest;
#pragma unroll
    for (int h = 0; h < kSquares; ++h) {
      float pv = 0;
      const float *weights = p + y * kWidth, *values = v + h * kTile + x;
      if constexpr (kFloat4) {
#pragma unroll(kUnroll)
        for (int key = 0; key < kTile; key += 4) {
          const float4 four = *reinterpret_cast<const float4*>(weights + key);
          pv += four.x * values[key * kStride] + four.y * values[(key + 1) * kStride] +
                four.z * values[(key + 2) * kStride] + four.w * values[(key + 3) * kStride];
        }
      } else {
#pragma unroll(kUnroll)
        for (int key = 0; key < kTile; ++key) pv += weights[key] * values[key * kStride];
      }
      state.o[h] = before * state.o[h] + pv;
    }
    __syncwarp();
  }

  // Without registers the state lies in shared memory between the tiles.
  __device__ void put_away(const State& state) const {
    if constexpr (!kRegisters) {
#pragma unroll
      for (int h = 0; h < kSquares; ++h) o[y * kStride + h * kTile + x] = state.o[h];
      if (x == 0) {
        m[y] = state.m;
        l[y] = state.l;
      }
      __syncwarp();
    }
  }
  __device__ void take_out(State& state) const {
    if constexpr (!kRegisters) {
      state.m = m[y];
      state.l = l[y];
#pragma unroll
      for (int h = 0; h < kSquares; ++h) state.o[h] = o[y * kStride + h * kTile + x];
      __syncwarp();
    }
  }
};

template <int kDim, Idea kWithout>
__device__ void rows_outside(const Block<kDim, kWithout>& block, const Tensors& t) {
  const std::int64_t head = std::int64_t{blockIdx.y} * t.rows, first_row = head + std::int64_t{blockIdx.x} * kTile;
  block.load(block.q, t.q + first_row * t.pitch, t.pitch);
  typename Block<kDim, kWithout>::State state;
  block.put_away(state);
  for (int j = 0; j < t.rows; j += kTile) {
    __syncthreads();
    block.load(block.k, t.k + (head + j) * t.pitch, t.pitch);
    block.load(block.v, t.v + (head + j) * t.pitch, t.pitch);
    __syncthreads();
    block.take_out(state);
    block.attend(state);
    block.put_away(state);
  }
  float* out = t.o + (first_row + block.y) * t.pitch + block.x;
#pragma unroll
  for (int h = 0; h < kDim / kTile; ++h) out[h * kTile] = state.o[h] / state.l;
}

// A block a batch; the state of a tile of rows goes to global memory and back for each tile of keys.
template <int kDim, Idea kWithout>
__device__ void keys_outside(const Block<kDim, kWithout>& block, const Tensors& t) {
  const std::int64_t head = std::int64_t{blockIdx.x} * t.rows;
  for (int j = 0; j < t.rows; j += kTile) {
    __syncthreads();
    block.load(block.k, t.k + (head + j) * t.pitch, t.pitch);
    block.load(block.v, t.v + (head + j) * t.pitch, t.pitch);
    for (int i = 0; i < t.rows; i += kTile) {
      const std::int64_t row = head + i + block.y;
      float* out = t.o + row * t.pitch + block.x;
      __syncthreads();
      block.load(block.q, t.q + (head + i) * t.pitch, t.pitch);
      typename Block<kDim, kWithout>::State state;
      if (j > 0) {
        state.m = t.m[row];
        state.l = t.l[row];
#pragma unroll
        for (int h = 0; h < kDim / kTile; ++h) state.o[h] = out[h * kTile];
      }
      block.put_away(state);
      __syncthreads();
      block.take_out(state);
      block.attend(state);
      const float divisor = j + kTile == t.rows ? state.l : 1;
#pragma unroll
      for (int h = 0; h < kDim / kTile; ++h) out[h * kTile] = state.o[h] / divisor;
      if (block.x == 0) {
        t.m[row] = state.m;
        t.l[row] = state.l;
      }
    }
  }
}

template <int kDim, Idea kWithout>
__global__ void __launch_bounds__(kTile* kTile) attend_without(Tensors t) {
  extern __shared__ __align__(16) float memory[];
  const Block<kDim, kWithout> block(memory, t.scale);
  if constexpr (kWithout != Idea::q_stationary)
    rows_outside(block, t);
  else
    keys_outside(block, t);
}

template <Idea kWithout>
void launch_kernel_without(const Tensors& t, cudaStream_t stream) {
  const auto kernel = t.dim == 32 ? attend_without<32, kWithout> : attend_without<64, kWithout>;
  const std::size_t floats = t.dim == 32 ? Block<32, kWithout>::kShared : Block<64, kWithout>::kShared;
  const auto batch = static_cast<unsigned>(t.batch), tiles = static_cast<unsigned>(t.rows / kTile);
  const dim3 grid = kWithout != Idea::q_stationary ? dim3(tiles, batch) : dim3(batch);
  kernel<<<grid, dim3(kTile, kTile), floats * sizeof(float), stream>>>(t);
  STROBE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace
}  // namespace strobe::lab
