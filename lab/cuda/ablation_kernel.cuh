// The kernel of rung `float4` in a form that can leave out one idea of the ladder. With all ideas it computes the same
// as that rung. The kernel is in an unnamed namespace, because ablation.cu and ablation_precise.cu compile it with
// different flags.
#pragma once

#include "lab/cuda/ablation.h"
#include "lab/cuda/key_tiles.cuh"
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
  // Floats of shared memory: Q, K, V [32][kStride] and P [32][kWidth]; without `registers` also O, S, m and l.
  static constexpr int kShared =
      kTile * (3 * kStride + kWidth) + (kRegisters ? 0 : kTile * (kStride + kWidth) + 2 * kTile);

  float *q, *k, *v, *p;
  float *o, *s, *m, *l;  // used only without `registers`: State and scores in shared memory
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float scale;

  // Running maximum and sum of row y, and columns x, x + 32 of its output.
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
      const int vector = y * kTile + x;
      const int row = kCoalesced ? vector / (kDim / 4) : x, c = 4 * (kCoalesced ? vector % (kDim / 4) : y);
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

  // Returns the score of row y and key x.
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

  // Returns the sum of `probability`, this thread's element of P, over the row. Without `registers`, reads P from
  // shared memory, where this warp has written it.
  __device__ float row_sum(float probability) const {
    float sum = 0;
    if constexpr (kRegisters) {
      sum = warp_sum(probability);
    } else {
#pragma unroll(kUnroll)
      for (int c = 0; c < kTile; ++c) sum += p[y * kWidth + c];
    }
    return sum;
  }

  // Adds columns x, x + 32 of row y of P V to `pv`.
  __device__ void weighted_sums(float (&pv)[kSquares]) const {
    const float *probabilities = p + y * kWidth, *values = v + x;
    if constexpr (kFloat4) {
#pragma unroll(kUnroll)
      for (int key = 0; key < kTile; key += 4) {
        const float4 four = *reinterpret_cast<const float4*>(probabilities + key);
#pragma unroll
        for (int h = 0; h < kSquares; ++h) {
          const float* column = values + key * kStride + h * kTile;
          pv[h] += four.x * column[0] + four.y * column[kStride] + four.z * column[2 * kStride] +
                   four.w * column[3 * kStride];
        }
      }
    } else {
#pragma unroll(kUnroll)
      for (int key = 0; key < kTile; ++key) {
#pragma unroll
        for (int h = 0; h < kSquares; ++h) pv[h] += probabilities[key] * values[key * kStride + h * kTile];
      }
    }
  }

  // Updates the state with the tile of keys in `k` and `v`.
  __device__ void attend(State& state) const {
    const float value = score(), tile_m = row_max(value), probability = expf(value - tile_m);
    p[y * kWidth + x] = probability;
    __syncwarp();  // only this warp writes and reads row y of P
    const float new_m = fmaxf(state.m, tile_m), tile_scale = expf(tile_m - new_m);
    const float old_l = state.l * expf(state.m - new_m), new_l = old_l + tile_scale * row_sum(probability);
    float pv[kSquares] = {};
    weighted_sums(pv);
#pragma unroll
    for (int h = 0; h < kSquares; ++h) state.o[h] = (old_l * state.o[h] + tile_scale * pv[h]) / new_l;
    state.m = new_m;
    state.l = new_l;
  }

  // Without `registers` the state is in shared memory between tiles; otherwise these functions do nothing.
  __device__ void store_state(const State& state) const {
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
  __device__ void load_state(State& state) const {
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
__global__ void __launch_bounds__(kTile* kTile, 2) attend_without(Tensors t) {
  extern __shared__ __align__(16) float memory[];
  const Block<kDim, kWithout> block(memory, t.scale);
  const std::int64_t batch_row = std::int64_t{blockIdx.y} * t.rows;
  const std::int64_t first_row = batch_row + std::int64_t{blockIdx.x} * kTile;
  block.load(block.q, t.q + first_row * t.pitch, t.pitch);
  typename Block<kDim, kWithout>::State state;
  block.store_state(state);
  for (int first_key = 0; first_key < t.rows; first_key += kTile) {
    __syncthreads();  // every warp has used the previous K and V
    block.load(block.k, t.k + (batch_row + first_key) * t.pitch, t.pitch);
    block.load(block.v, t.v + (batch_row + first_key) * t.pitch, t.pitch);
    __syncthreads();
    block.load_state(state);
    block.attend(state);
    block.store_state(state);
  }
  float* out = t.o + (first_row + block.y) * t.pitch + block.x;
#pragma unroll
  for (int h = 0; h < kDim / kTile; ++h) out[h * kTile] = state.o[h];
}

// Variant without `q-stationary`: one launch per batch and tile of keys; the state is in global memory between
// launches.
template <int kDim>
__global__ void __launch_bounds__(kTile* kTile, 2) attend_key_tile(Tensors t, int first_key) {
  extern __shared__ __align__(16) float memory[];
  using TileBlock = Block<kDim, Idea::q_stationary>;
  const TileBlock block(memory, t.scale);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kTile, row = first_row + block.y;
  float* out = t.o + row * t.pitch + block.x;
  block.load(block.q, t.q + first_row * t.pitch, t.pitch);
  typename TileBlock::State state;
  if (first_key > 0) {
    state.m = t.m[row];
    state.l = t.l[row];
#pragma unroll
    for (int h = 0; h < kDim / kTile; ++h) state.o[h] = out[h * kTile];
  }
  block.load(block.k, t.k + first_key * t.pitch, t.pitch);
  block.load(block.v, t.v + first_key * t.pitch, t.pitch);
  __syncthreads();
  block.attend(state);
  if (block.x == 0) {
    t.m[row] = state.m;
    t.l[row] = state.l;
  }
#pragma unroll
  for (int h = 0; h < kDim / kTile; ++h) out[h * kTile] = state.o[h];
}

template <Idea kWithout>
Launches launch_kernel_without(const Tensors& t, cudaStream_t stream) {
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(t.dim == 32 ? Block<32, kWithout>::kShared
                                                                                 : Block<64, kWithout>::kShared);
  if constexpr (kWithout == Idea::q_stationary) {
    return launch_per_key_tile(t.dim == 32 ? attend_key_tile<32> : attend_key_tile<64>, t, bytes, stream);
  } else {
    const auto kernel = t.dim == 32 ? attend_without<32, kWithout> : attend_without<64, kWithout>;
    const dim3 grid(static_cast<unsigned>(t.rows / kTile), static_cast<unsigned>(t.batch));
    kernel<<<grid, dim3(kTile, kTile), bytes, stream>>>(t);
    STROBE_CUDA_CHECK(cudaGetLastError());
    return {.count = 1, .shared_bytes = bytes};
  }
}

}  // namespace
}  // namespace strobe::lab
