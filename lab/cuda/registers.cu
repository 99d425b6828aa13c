// Rung `registers`: the maximum m, sum l and output O of a row are in registers of the warp that computes the row.
//
// Warp y computes row y of a tile, one score per thread. Shuffles give all threads the row's maximum and sum without
// shared memory. O needs no tile: thread x has columns x, x + 32. Between launches m, l and O are still in global
// memory. Shared memory holds tiles of Q, K, V and a square of P: seven squares, or 29,568 bytes, at dim 64.
#include "lab/cuda/key_tiles.cuh"
#include "lab/cuda/runs.h"
#include "lab/cuda/warp.cuh"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kWidth = 33;  // floats between rows of a square, which is 32 columns of a tile
constexpr int kSquare = kTile * kWidth;

__device__ int at(int row, int c) { return c / kTile * kSquare + row * kWidth + c % kTile; }

// Thread (x, y) copies row y, columns x, x + 32: adjacent threads access adjacent floats.
template <int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
#pragma unroll
  for (int h = 0; h < kDim; h += kTile) {
    tile[at(threadIdx.y, h + threadIdx.x)] = global[threadIdx.y * pitch + h + threadIdx.x];
  }
}

template <int kDim>
__global__ void __launch_bounds__(kTile* kTile, 2) attend(Tensors t, int first_key) {
  extern __shared__ float memory[];
  constexpr int kSquares = kDim / kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  float *q = memory, *k = q + kSquares * kSquare, *v = k + kSquares * kSquare, *p = v + kSquares * kSquare;
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kTile, row = first_row + y;
  load_tile<kDim>(q, t.q + first_row * t.pitch, t.pitch);
  float m = -INFINITY, l = 0, o[kSquares] = {};  // o: columns x, x + 32 of row y
  if (first_key > 0) {
    m = t.m[row];
    l = t.l[row];
#pragma unroll
    for (int h = 0; h < kSquares; ++h) o[h] = t.o[row * t.pitch + h * kTile + x];
  }
  load_tile<kDim>(k, t.k + first_key * t.pitch, t.pitch);
  load_tile<kDim>(v, t.v + first_key * t.pitch, t.pitch);
  __syncthreads();

  float score = 0;  // row y, key x
#pragma unroll
  for (int c = 0; c < kDim; ++c) score += q[at(y, c)] * k[at(x, c)];
  score *= t.scale;
  const float tile_m = warp_max(score), probability = expf(score - tile_m), tile_l = warp_sum(probability);
  p[at(y, x)] = probability;
  __syncwarp();  // only this warp writes and reads row y of P

  const float new_m = fmaxf(m, tile_m), tile_scale = expf(tile_m - new_m);
  const float old_l = l * expf(m - new_m), new_l = old_l + tile_scale * tile_l;
  float pv[kSquares] = {};
#pragma unroll
  for (int key = 0; key < kTile; ++key) {
#pragma unroll
    for (int h = 0; h < kSquares; ++h) pv[h] += p[at(y, key)] * v[at(key, h * kTile + x)];
  }
#pragma unroll
  for (int h = 0; h < kSquares; ++h) o[h] = (old_l * o[h] + tile_scale * pv[h]) / new_l;
  m = new_m;
  l = new_l;

  if (x == 0) {
    t.m[row] = m;
    t.l[row] = l;
  }
#pragma unroll
  for (int h = 0; h < kSquares; ++h) t.o[row * t.pitch + h * kTile + x] = o[h];
}

}  // namespace

Split run_registers(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(3 * t.dim / kTile + 1) * kSquare * sizeof(float);
    return launch_per_key_tile(t.dim == 32 ? attend<32> : attend<64>, t, bytes);
  });
}

}  // namespace strobe::lab
