// Rung `registers`: the running maximum, sum and output of a row live in the registers of the warp that owns the row.
//
// A warp is row y of a tile: its 32 threads hold one score each, and find the row's maximum and sum by shuffles in
// place of reading 32 floats each from shared memory. O needs no tile: thread x keeps columns x, x + 32. Since keys are
// still the outer loop, m, l and O must come from global memory and go back for every tile of keys. Shared memory:
// tiles of Q, K, V and a square of P, at dim 64 seven squares: 29,568 bytes.
#include "lab/cuda/host.h"
#include "lab/cuda/runs.h"
#include "lab/cuda/warp.cuh"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kWidth = 33;  // floats from a row of a square to the next
constexpr int kSquare = kTile * kWidth;

__device__ int at(int row, int c) { return c / kTile * kSquare + row * kWidth + c % kTile; }

template <int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
#pragma unroll
  for (int h = 0; h < kDim; h += kTile) {
    tile[at(threadIdx.y, h + threadIdx.x)] = global[threadIdx.y * pitch + h + threadIdx.x];
  }
}

template <int kDim>
__global__ void __launch_bounds__(kTile* kTile) attend(Tensors t) {
  extern __shared__ float memory[];
  constexpr int kSquares = kDim / kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  float *q = memory, *k = q + kSquares * kSquare, *v = k + kSquares * kSquare, *p = v + kSquares * kSquare;
  const std::int64_t head = std::int64_t{blockIdx.x} * t.rows;
  for (int j = 0; j < t.rows; j += kTile) {
    load_tile<kDim>(k, t.k + (head + j) * t.pitch, t.pitch);
    load_tile<kDim>(v, t.v + (head + j) * t.pitch, t.pitch);
    for (int i = 0; i < t.rows; i += kTile) {
      const std::int64_t row = head + i + y;
      load_tile<kDim>(q, t.q + (head + i) * t.pitch, t.pitch);
      __syncthreads();

      float score = 0;  // of row y and key x
#pragma unroll
      for (int c = 0; c < kDim; ++c) score += q[at(y, c)] * k[at(x, c)];
      score *= t.scale;
      const float tile_m = warp_max(score);
      const float weight = expf(score - tile_m);
      const float tile_l = warp_sum(weight);
      p[at(y, x)] = weight;
      __syncwarp();  // row y of P is written and read by this warp alone

      const float m = j > 0 ? t.m[row] : tile_m;
      const float highest = fmaxf(m, tile_m), now = expf(tile_m - highest);
      const float before = j > 0 ? t.l[row] * expf(m - highest) : 0;
      const float sum = before + now * tile_l;
#pragma unroll
      for (int h = 0; h < kDim; h += kTile) {
        float pv = 0;
#pragma unroll
        for (int key = 0; key < kTile; ++key) pv += p[at(y, key)] * v[at(key, h + x)];
        float& o = t.o[row * t.pitch + h + x];
        o = ((j > 0 ? before * o : 0) + now * pv) / sum;
      }
      __syncwarp();  // all have read m and l
      if (x == 0) {
        t.m[row] = highest;
        t.l[row] = sum;
      }
      __syncthreads();
    }
  }
}

}  // namespace

Split run_registers(const Problem& problem, float* o) {
  return run_in_turn(problem, o, Layout::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(3 * t.dim / kTile + 1) * kSquare * sizeof(float);
    const auto kernel = t.dim == 32 ? attend<32> : attend<64>;
    kernel<<<static_cast<unsigned>(t.batch), dim3(kTile, kTile), bytes>>>(t);
  });
}

}  // namespace strobe::lab
