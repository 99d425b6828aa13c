// The kernel of rung `float4`, and of all after it but the last: four floats a load, from global and from shared
// memory.
//
// A load of 16 bytes costs an instruction as one of 4 does. In the product of Q and K a thread now needs 2 loads for 4
// multiplications in place of 8. Tiles are [32][dim + 4]: rows of 16-byte pieces stay aligned, and the 8 threads that
// are served at once begin in 8 different groups of 4 banks. Shared memory at dim 64: 30,720 bytes.
// In an unnamed namespace: float4.cu and fast_math.cu compile it with different flags.
#pragma once

#include "lab/cuda/host.h"
#include "lab/cuda/warp.cuh"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kPad = 4;

__device__ float4& four(float* at) { return *reinterpret_cast<float4*>(at); }

// 32 rows of kDim floats; the first 8 * kDim threads of the block move 4 floats each.
template <int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
  const int piece = static_cast<int>(threadIdx.y * kTile + threadIdx.x), row = piece / (kDim / 4);
  const int c = piece % (kDim / 4) * 4;
  if (row < kTile) four(tile + row * (kDim + kPad) + c) = *reinterpret_cast<const float4*>(global + row * pitch + c);
}

__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

template <int kDim>
__global__ void __launch_bounds__(kTile* kTile) attend(Tensors t) {
  extern __shared__ __align__(16) float memory[];
  constexpr int kStride = kDim + kPad, kWidth = kTile + kPad, kSquares = kDim / kTile;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float *q = memory, *k = q + kTile * kStride, *v = k + kTile * kStride;  // [32][kStride] each
  float* p = v + kTile * kStride;                                         // [32][kWidth]
  const std::int64_t head = std::int64_t{blockIdx.y} * t.rows, first_row = head + std::int64_t{blockIdx.x} * kTile;
  load_tile<kDim>(q, t.q + first_row * t.pitch, t.pitch);
  float m = -INFINITY, l = 0, o[kSquares] = {};  // o: columns x, x + 32 of row y, not yet divided by l
  for (int j = 0; j < t.rows; j += kTile) {
    __syncthreads();  // the last tile of keys was used
    load_tile<kDim>(k, t.k + (head + j) * t.pitch, t.pitch);
    load_tile<kDim>(v, t.v + (head + j) * t.pitch, t.pitch);
    __syncthreads();

    float score = 0;  // of row y and key x
#pragma unroll
    for (int c = 0; c < kDim; c += 4) score += dot(four(q + y * kStride + c), four(k + x * kStride + c));
    score *= t.scale;
    const float highest = fmaxf(m, warp_max(score));
    const float before = expf(m - highest), weight = expf(score - highest);
    l = before * l + warp_sum(weight);
    m = highest;
    p[y * kWidth + x] = weight;
    __syncwarp();  // row y of P is written and read by this warp alone
#pragma unroll
    for (int h = 0; h < kSquares; ++h) o[h] *= before;
#pragma unroll
    for (int key = 0; key < kTile; key += 4) {
      const float4 weights = four(p + y * kWidth + key);
#pragma unroll
      for (int h = 0; h < kSquares; ++h) {
        const float* values = v + key * kStride + h * kTile + x;  // column x of 4 keys
        o[h] += dot(weights, {values[0], values[kStride], values[2 * kStride], values[3 * kStride]});
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kSquares; ++h) t.o[(first_row + y) * t.pitch + h * kTile + x] = o[h] / l;
}

void launch(const Tensors& t, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(kTile * (3 * (t.dim + kPad) + kTile + kPad)) * sizeof(float);
  const dim3 grid(static_cast<unsigned>(t.rows / kTile), static_cast<unsigned>(t.batch));
  const auto kernel = t.dim == 32 ? attend<32> : attend<64>;
  kernel<<<grid, dim3(kTile, kTile), bytes, stream>>>(t);
  STROBE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace
}  // namespace strobe::lab
