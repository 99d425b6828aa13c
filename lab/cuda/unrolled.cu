// Rung `unrolled`: dim is a template parameter, so that every loop has a known length and the compiler unrolls it. That
// removes loop counters and branches, and lets loads of several iterations overlap. Nothing else differs from
// `pitched`.
#include "lab/cuda/key_tiles.cuh"
#include "lab/cuda/runs.h"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kWidth = 33;  // floats between rows of a square, which is 32 columns of a tile
constexpr int kSquare = kTile * kWidth;

__device__ int at(int row, int c) { return c / kTile * kSquare + row * kWidth + c % kTile; }

// Thread (x, y) copies row x, columns y, y + 32, as most first versions do. The accesses are not coalesced.
template <int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
#pragma unroll
  for (int h = 0; h < kDim; h += kTile) {
    tile[at(threadIdx.x, h + threadIdx.y)] = global[threadIdx.x * pitch + h + threadIdx.y];
  }
}

template <int kDim>
__global__ void __launch_bounds__(kTile* kTile, 2) attend(Tensors t, int first_key) {
  extern __shared__ float memory[];
  const int x = threadIdx.x, y = threadIdx.y, squares = kDim / kTile;
  float *q = memory, *k = q + squares * kSquare, *v = k + squares * kSquare, *o = v + squares * kSquare;
  float *s = o + squares * kSquare, *p = s + kSquare;
  const bool first = first_key == 0;  // m, l and O are not written yet
  const std::int64_t row = std::int64_t{blockIdx.x} * kTile, key_offset = std::int64_t{first_key} * t.pitch;
  load_tile<kDim>(q, t.q + row * t.pitch, t.pitch);
  load_tile<kDim>(k, t.k + key_offset, t.pitch);
  load_tile<kDim>(v, t.v + key_offset, t.pitch);
  if (!first) load_tile<kDim>(o, t.o + row * t.pitch, t.pitch);
  __syncthreads();

  float score = 0;  // row y, key x
#pragma unroll
  for (int c = 0; c < kDim; ++c) score += q[at(y, c)] * k[at(x, c)];
  s[at(y, x)] = score * t.scale;
  __syncthreads();

  float tile_m = s[at(y, 0)];  // each thread computes the maximum and the sum of its row
#pragma unroll
  for (int c = 1; c < kTile; ++c) tile_m = fmaxf(tile_m, s[at(y, c)]);
  p[at(y, x)] = expf(s[at(y, x)] - tile_m);
  __syncthreads();
  float tile_l = 0;
#pragma unroll
  for (int c = 0; c < kTile; ++c) tile_l += p[at(y, c)];

  const float m = first ? tile_m : t.m[row + y];
  const float new_m = fmaxf(m, tile_m), tile_scale = expf(tile_m - new_m);
  const float old_l = first ? 0 : t.l[row + y] * expf(m - new_m);
  const float new_l = old_l + tile_scale * tile_l;
#pragma unroll
  for (int h = 0; h < kDim; h += kTile) {
    const int c = h + x;
    float pv = 0;
#pragma unroll
    for (int key = 0; key < kTile; ++key) pv += p[at(y, key)] * v[at(key, c)];
    const float old_o = first ? 0 : old_l * o[at(y, c)];
    o[at(y, c)] = (old_o + tile_scale * pv) / new_l;
  }
  __syncthreads();  // O is complete, and every thread has read m and l
  if (x == 0) {
    t.m[row + y] = new_m;
    t.l[row + y] = new_l;
  }
#pragma unroll
  for (int h = 0; h < kDim; h += kTile) t.o[(row + x) * t.pitch + h + y] = o[at(x, h + y)];
}

}  // namespace

Split run_unrolled(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(4 * t.dim / kTile + 2) * kSquare * sizeof(float);
    return launch_per_key_tile(t.dim == 32 ? attend<32> : attend<64>, t, bytes);
  });
}

}  // namespace strobe::lab
