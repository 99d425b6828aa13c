// Rung `q-stationary`: a block keeps its tile of Q and loops over all keys. One launch with a grid of (N / 32, B)
// blocks computes all B batches of N rows. It performs the same operations as `registers`, in the same order.
//
// The loop over keys moves from the host into the kernel, and the loop over batches into the grid. So the running
// maximum m, sum l and output O of a row stay in registers from the first key to the last. Q is read once, O is written
// once, and one launch replaces B N / 32 launches.
#include "lab/cuda/host.h"
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
__global__ void __launch_bounds__(kTile* kTile, 2) attend(Tensors t) {
  extern __shared__ float memory[];
  constexpr int kSquares = kDim / kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  float *q = memory, *k = q + kSquares * kSquare, *v = k + kSquares * kSquare, *p = v + kSquares * kSquare;
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
  }
#pragma unroll
  for (int h = 0; h < kSquares; ++h) t.o[row * t.pitch + h * kTile + x] = o[h];
}

}  // namespace

Split run_q_stationary(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::pitched, [](const Tensors& t) {
    const std::size_t bytes = static_cast<std::size_t>(3 * t.dim / kTile + 1) * kSquare * sizeof(float);
    const dim3 grid(static_cast<unsigned>(t.rows / kTile), static_cast<unsigned>(t.batch));
    const auto kernel = t.dim == 32 ? attend<32> : attend<64>;
    kernel<<<grid, dim3(kTile, kTile), bytes>>>(t);
    return Launches{.count = 1, .shared_bytes = bytes};
  });
}

}  // namespace strobe::lab
