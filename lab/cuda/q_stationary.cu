// Rung `q-stationary`: rows outside, keys inside. A block does one tile of rows against all keys: grid (N / 32, B).
//
// Two things follow. The running m, l and O stay in registers from the first key to the last: O is written once, and
// divided by l once, at the end; m and l never see global memory. And there are N / 32 times as many blocks: a case of
// 4 batches kept 4 multiprocessors busy before, and now has 2048 blocks to hand out.
// The price: every block reads all of K and V, which the L2 cache serves.
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
    for (int c = 0; c < kDim; ++c) score += q[at(y, c)] * k[at(x, c)];
    score *= t.scale;
    const float highest = fmaxf(m, warp_max(score));
    const float before = expf(m - highest), weight = expf(score - highest);
    l = before * l + warp_sum(weight);
    m = highest;
    p[at(y, x)] = weight;
    __syncwarp();  // row y of P is written and read by this warp alone
#pragma unroll
    for (int h = 0; h < kSquares; ++h) {
      o[h] *= before;
#pragma unroll
      for (int key = 0; key < kTile; ++key) o[h] += p[at(y, key)] * v[at(key, h * kTile + x)];
    }
  }
#pragma unroll
  for (int h = 0; h < kSquares; ++h) t.o[(first_row + y) * t.pitch + h * kTile + x] = o[h] / l;
}

}  // namespace

Split run_q_stationary(const Problem& problem, float* o) {
  return run_in_turn(problem, o, Layout::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(3 * t.dim / kTile + 1) * kSquare * sizeof(float);
    const dim3 grid(static_cast<unsigned>(t.rows / kTile), static_cast<unsigned>(t.batch));
    const auto kernel = t.dim == 32 ? attend<32> : attend<64>;
    kernel<<<grid, dim3(kTile, kTile), bytes>>>(t);
  });
}

}  // namespace strobe::lab
