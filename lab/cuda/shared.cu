// Rung `shared`: the five steps in one kernel. A block of 32 x 32 threads computes a tile in shared memory.
//
// The host loops over batches and over tiles of 32 keys (launch_per_key_tile). Each launch has N / 32 blocks for N
// rows, one per tile of Q. A block reads, updates and writes the running maximum m, sum l and output O in global
// memory, where they stay between launches. Thread (x, y) computes the score of row y and key x.
//
// A tile [32, dim] is stored as dim / 32 squares of [32][kWidth] floats. A block has four tiles (Q, K, V, O) and two
// squares (S, P). At dim 64 these are ten squares of 4,096 bytes, or 40,960 bytes. When a warp reads K for S, its 32
// threads read addresses 32 floats apart. These are all in one bank, so the reads are serialised; rung `padded` avoids
// this. `unroll 1` keeps the loops rolled, because unrolling is a separate rung. The launch bounds of this and the
// later hand-written rungs limit a thread to 32 registers. An SM then holds two blocks, and occupancy does not change
// from rung to rung by accident.
#include "lab/cuda/key_tiles.cuh"
#include "lab/cuda/runs.h"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kWidth = 32;  // floats between rows of a square, which is 32 columns of a tile
constexpr int kSquare = kTile * kWidth;

__device__ int at(int row, int c) { return c / kTile * kSquare + row * kWidth + c % kTile; }

// Thread (x, y) copies row x, columns y, y + 32, as most first versions do. The accesses are not coalesced.
__device__ void load_tile(float* tile, const float* global, int dim) {
#pragma unroll 1
  for (int c = threadIdx.y; c < dim; c += kTile) tile[at(threadIdx.x, c)] = global[threadIdx.x * dim + c];
}

__global__ void __launch_bounds__(kTile* kTile, 2) attend(Tensors t, int first_key) {
  extern __shared__ float memory[];
  const int x = threadIdx.x, y = threadIdx.y, squares = t.dim / kTile;
  float *q = memory, *k = q + squares * kSquare, *v = k + squares * kSquare, *o = v + squares * kSquare;
  float *s = o + squares * kSquare, *p = s + kSquare;
  const bool first = first_key == 0;  // m, l and O are not written yet
  const std::int64_t row = std::int64_t{blockIdx.x} * kTile, key_offset = std::int64_t{first_key} * t.dim;
  load_tile(q, t.q + row * t.dim, t.dim);
  load_tile(k, t.k + key_offset, t.dim);
  load_tile(v, t.v + key_offset, t.dim);
  if (!first) load_tile(o, t.o + row * t.dim, t.dim);
  __syncthreads();

  float score = 0;  // row y, key x
#pragma unroll 1
  for (int c = 0; c < t.dim; ++c) score += q[at(y, c)] * k[at(x, c)];
  s[at(y, x)] = score * t.scale;
  __syncthreads();

  float tile_m = s[at(y, 0)];  // each thread computes the maximum and the sum of its row
#pragma unroll 1
  for (int c = 1; c < kTile; ++c) tile_m = fmaxf(tile_m, s[at(y, c)]);
  p[at(y, x)] = expf(s[at(y, x)] - tile_m);
  __syncthreads();
  float tile_l = 0;
#pragma unroll 1
  for (int c = 0; c < kTile; ++c) tile_l += p[at(y, c)];

  const float m = first ? tile_m : t.m[row + y];
  const float new_m = fmaxf(m, tile_m), tile_scale = expf(tile_m - new_m);
  const float old_l = first ? 0 : t.l[row + y] * expf(m - new_m);
  const float new_l = old_l + tile_scale * tile_l;
#pragma unroll 1
  for (int c = x; c < t.dim; c += kTile) {
    float pv = 0;
#pragma unroll 1
    for (int key = 0; key < kTile; ++key) pv += p[at(y, key)] * v[at(key, c)];
    const float old_o = first ? 0 : old_l * o[at(y, c)];
    o[at(y, c)] = (old_o + tile_scale * pv) / new_l;
  }
  __syncthreads();  // O is complete, and every thread has read m and l
  if (x == 0) {
    t.m[row + y] = new_m;
    t.l[row + y] = new_l;
  }
#pragma unroll 1
  for (int c = y; c < t.dim; c += kTile) t.o[(row + x) * t.dim + c] = o[at(x, c)];
}

}  // namespace

Split run_shared(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::packed, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(4 * t.dim / kTile + 2) * kSquare * sizeof(float);
    return launch_per_key_tile(attend, t, bytes);
  });
}

}  // namespace strobe::lab
