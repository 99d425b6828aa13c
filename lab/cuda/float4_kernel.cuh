// The kernel of rung `float4` and of every later rung except `library`. It loads four floats at a time from global
// memory and from the tiles of Q, K and P in shared memory. Apart from these loads and the layout of the tiles, it is
// the kernel of `q-stationary`.
//
// A load of 16 bytes costs one instruction, like a load of 4 bytes. For S, a thread issues 2 loads per 4
// multiplications, not 8. Tiles are [32][dim + 4], so rows stay aligned to 16 bytes. A 16-byte load serves 8 threads at
// a time, whose addresses are in 8 different groups of 4 banks. Shared memory at dim 64: 30,720 bytes. The kernel is in
// an unnamed namespace, because float4.cu and fast_math.cu compile it with different flags.
#pragma once

#include "lab/cuda/host.h"
#include "lab/cuda/warp.cuh"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kPad = 4;

__device__ float4& four(float* at) { return *reinterpret_cast<float4*>(at); }

// Copies 32 rows of kDim floats: each of the first 8 * kDim threads of the block copies 4 floats.
template <int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
  const int vector = static_cast<int>(threadIdx.y * kTile + threadIdx.x), row = vector / (kDim / 4);
  const int c = vector % (kDim / 4) * 4;
  if (row < kTile) four(tile + row * (kDim + kPad) + c) = *reinterpret_cast<const float4*>(global + row * pitch + c);
}

__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

template <int kDim>
__global__ void __launch_bounds__(kTile* kTile, 2) attend(Tensors t) {
  extern __shared__ __align__(16) float memory[];
  constexpr int kStride = kDim + kPad, kWidth = kTile + kPad, kSquares = kDim / kTile;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float *q = memory, *k = q + kTile * kStride, *v = k + kTile * kStride;  // [32][kStride] each
  float* p = v + kTile * kStride;                                         // [32][kWidth]
  const std::int64_t batch_row = std::int64_t{blockIdx.y} * t.rows;
  const std::int64_t first_row = batch_row + std::int64_t{blockIdx.x} * kTile, row = first_row + y;
  load_tile<kDim>(q, t.q + first_row * t.pitch, t.pitch);
  float m = -INFINITY, l = 0, o[kSquares] = {};  // o: columns x, x + 32 of row y
  for (int first_key = 0; first_key < t.rows; first_key += kTile) {
    __syncthreads();  // every warp has used the previous K and V
    load_tile<kDim>(k, t.k + (batch_row + first_key) * t.pitch, t.pitch);
    load_tile<kDim>(v, t.v + (batch_row + first_key) * t.pitch, t.pitch);
    __syncthreads();

    float score = 0;  // row y, key x
#pragma unroll
    for (int c = 0; c < kDim; c += 4) score += dot(four(q + y * kStride + c), four(k + x * kStride + c));
    score *= t.scale;
    const float tile_m = warp_max(score), probability = expf(score - tile_m), tile_l = warp_sum(probability);
    p[y * kWidth + x] = probability;
    __syncwarp();  // only this warp writes and reads row y of P

    const float new_m = fmaxf(m, tile_m), tile_scale = expf(tile_m - new_m);
    const float old_l = l * expf(m - new_m), new_l = old_l + tile_scale * tile_l;
    float pv[kSquares] = {};
#pragma unroll
    for (int key = 0; key < kTile; key += 4) {
      const float4 probabilities = four(p + y * kWidth + key);
#pragma unroll
      for (int h = 0; h < kSquares; ++h) {
        const float* values = v + key * kStride + h * kTile + x;  // column x of 4 keys
        pv[h] += dot(probabilities, {values[0], values[kStride], values[2 * kStride], values[3 * kStride]});
      }
    }
#pragma unroll
    for (int h = 0; h < kSquares; ++h) o[h] = (old_l * o[h] + tile_scale * pv[h]) / new_l;
    m = new_m;
    l = new_l;
  }
#pragma unroll
  for (int h = 0; h < kSquares; ++h) t.o[row * t.pitch + h * kTile + x] = o[h];
}

Launches launch(const Tensors& t, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(kTile * (3 * (t.dim + kPad) + kTile + kPad)) * sizeof(float);
  const dim3 grid(static_cast<unsigned>(t.rows / kTile), static_cast<unsigned>(t.batch));
  const auto kernel = t.dim == 32 ? attend<32> : attend<64>;
  kernel<<<grid, dim3(kTile, kTile), bytes, stream>>>(t);
  STROBE_CUDA_CHECK(cudaGetLastError());
  return {.count = 1, .shared_bytes = bytes};
}

}  // namespace
}  // namespace strobe::lab
