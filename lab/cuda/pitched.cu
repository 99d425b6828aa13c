// Rung `pitched`: Q, K, V and O come from cudaMallocPitch, so that each row begins at an aligned address; copies are
// rectangles (cudaMemcpy2D). Kernels step from row to row by the pitch in place of dim. Nothing else differs.
//
// A row of 64 floats is 256 bytes and was aligned before. So there is nothing to gain at these sizes; the driver's own
// pitch (often 512 bytes) spreads the rows over more memory, and copies of short rows are slower.
#include "lab/cuda/host.h"
#include "lab/cuda/runs.h"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kWidth = 33;  // floats from a row of a square to the next
constexpr int kSquare = kTile * kWidth;

__device__ int at(int row, int c) { return c / kTile * kSquare + row * kWidth + c % kTile; }

// Thread (x, y) moves row x, columns y, y + 32: the way a person first writes it.
__device__ void load_tile(float* tile, const float* global, int dim, std::int64_t pitch) {
#pragma unroll 1
  for (int c = threadIdx.y; c < dim; c += kTile) tile[at(threadIdx.x, c)] = global[threadIdx.x * pitch + c];
}

__global__ void __launch_bounds__(kTile* kTile) attend(Tensors t) {
  extern __shared__ float memory[];
  const int x = threadIdx.x, y = threadIdx.y, squares = t.dim / kTile;
  float *q = memory, *k = q + squares * kSquare, *v = k + squares * kSquare, *o = v + squares * kSquare;
  float *s = o + squares * kSquare, *p = s + kSquare;
  const std::int64_t head = std::int64_t{blockIdx.x} * t.rows;
  for (int j = 0; j < t.rows; j += kTile) {
    load_tile(k, t.k + (head + j) * t.pitch, t.dim, t.pitch);
    load_tile(v, t.v + (head + j) * t.pitch, t.dim, t.pitch);
    for (int i = 0; i < t.rows; i += kTile) {
      const std::int64_t row = head + i;
      load_tile(q, t.q + row * t.pitch, t.dim, t.pitch);
      if (j > 0) load_tile(o, t.o + row * t.pitch, t.dim, t.pitch);
      __syncthreads();

      float score = 0;  // of row y and key x
#pragma unroll 1
      for (int c = 0; c < t.dim; ++c) score += q[at(y, c)] * k[at(x, c)];
      s[at(y, x)] = score * t.scale;
      __syncthreads();

      float tile_m = s[at(y, 0)];  // every thread of a row finds its maximum and its sum for itself
#pragma unroll 1
      for (int c = 1; c < kTile; ++c) tile_m = fmaxf(tile_m, s[at(y, c)]);
      p[at(y, x)] = expf(s[at(y, x)] - tile_m);
      __syncthreads();
      float tile_l = 0;
#pragma unroll 1
      for (int c = 0; c < kTile; ++c) tile_l += p[at(y, c)];

      const float m = j > 0 ? t.m[row + y] : tile_m;
      const float highest = fmaxf(m, tile_m), now = expf(tile_m - highest);
      const float before = j > 0 ? t.l[row + y] * expf(m - highest) : 0;
      const float sum = before + now * tile_l;
#pragma unroll 1
      for (int c = x; c < t.dim; c += kTile) {
        float pv = 0;
#pragma unroll 1
        for (int key = 0; key < kTile; ++key) pv += p[at(y, key)] * v[at(key, c)];
        const float old = j > 0 ? before * o[at(y, c)] : 0;
        o[at(y, c)] = (old + now * pv) / sum;
      }
      __syncthreads();
      if (x == 0) {
        t.m[row + y] = highest;
        t.l[row + y] = sum;
      }
#pragma unroll 1
      for (int c = y; c < t.dim; c += kTile) t.o[(row + x) * t.pitch + c] = o[at(x, c)];
      __syncthreads();
    }
  }
}

}  // namespace

Split run_pitched(const Problem& problem, float* o) {
  return run_in_turn(problem, o, Layout::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(4 * t.dim / kTile + 2) * kSquare * sizeof(float);
    attend<<<static_cast<unsigned>(t.batch), dim3(kTile, kTile), bytes>>>(t);
  });
}

}  // namespace strobe::lab
