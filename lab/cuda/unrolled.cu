// Rung `unrolled`: dim is a template parameter, all loops have a known length, and the compiler unrolls them: no
// counters and branches between the multiplications, and loads of several steps in flight at once.
// Nothing else differs from `pitched`.
#include "lab/cuda/host.h"
#include "lab/cuda/runs.h"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;
constexpr int kWidth = 33;  // floats from a row of a square to the next
constexpr int kSquare = kTile * kWidth;

__device__ int at(int row, int c) { return c / kTile * kSquare + row * kWidth + c % kTile; }

// Thread (x, y) moves row x, columns y, y + 32: the way a person first writes it.
template <int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
#pragma unroll
  for (int h = 0; h < kDim; h += kTile) {
    tile[at(threadIdx.x, h + threadIdx.y)] = global[threadIdx.x * pitch + h + threadIdx.y];
  }
}

template <int kDim>
__global__ void __launch_bounds__(kTile* kTile) attend(Tensors t) {
  extern __shared__ float memory[];
  const int x = threadIdx.x, y = threadIdx.y, squares = kDim / kTile;
  float *q = memory, *k = q + squares * kSquare, *v = k + squares * kSquare, *o = v + squares * kSquare;
  float *s = o + squares * kSquare, *p = s + kSquare;
  const std::int64_t head = std::int64_t{blockIdx.x} * t.rows;
  for (int j = 0; j < t.rows; j += kTile) {
    load_tile<kDim>(k, t.k + (head + j) * t.pitch, t.pitch);
    load_tile<kDim>(v, t.v + (head + j) * t.pitch, t.pitch);
    for (int i = 0; i < t.rows; i += kTile) {
      const std::int64_t row = head + i;
      load_tile<kDim>(q, t.q + row * t.pitch, t.pitch);
      if (j > 0) load_tile<kDim>(o, t.o + row * t.pitch, t.pitch);
      __syncthreads();

      float score = 0;  // of row y and key x
#pragma unroll
      for (int c = 0; c < kDim; ++c) score += q[at(y, c)] * k[at(x, c)];
      s[at(y, x)] = score * t.scale;
      __syncthreads();

      float tile_m = s[at(y, 0)];  // every thread of a row finds its maximum and its sum for itself
#pragma unroll
      for (int c = 1; c < kTile; ++c) tile_m = fmaxf(tile_m, s[at(y, c)]);
      p[at(y, x)] = expf(s[at(y, x)] - tile_m);
      __syncthreads();
      float tile_l = 0;
#pragma unroll
      for (int c = 0; c < kTile; ++c) tile_l += p[at(y, c)];

      const float m = j > 0 ? t.m[row + y] : tile_m;
      const float highest = fmaxf(m, tile_m), now = expf(tile_m - highest);
      const float before = j > 0 ? t.l[row + y] * expf(m - highest) : 0;
      const float sum = before + now * tile_l;
#pragma unroll
      for (int h = 0; h < kDim; h += kTile) {
        const int c = h + x;
        float pv = 0;
#pragma unroll
        for (int key = 0; key < kTile; ++key) pv += p[at(y, key)] * v[at(key, c)];
        const float old = j > 0 ? before * o[at(y, c)] : 0;
        o[at(y, c)] = (old + now * pv) / sum;
      }
      __syncthreads();
      if (x == 0) {
        t.m[row + y] = highest;
        t.l[row + y] = sum;
      }
#pragma unroll
      for (int h = 0; h < kDim; h += kTile) t.o[(row + x) * t.pitch + h + y] = o[at(x, h + y)];
      __syncthreads();
    }
  }
}

}  // namespace

Split run_unrolled(const Problem& problem, float* o) {
  return run_in_turn(problem, o, Layout::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(4 * t.dim / kTile + 2) * kSquare * sizeof(float);
    const auto kernel = t.dim == 32 ? attend<32> : attend<64>;
    kernel<<<static_cast<unsigned>(t.batch), dim3(kTile, kTile), bytes>>>(t);
  });
}

}  // namespace strobe::lab
