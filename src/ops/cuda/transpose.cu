// Implements transpose() of launch.h through tiles in shared memory, so that both reads and writes are along rows.
// Called by linear.cpp.
#include "device/cuda/check.h"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kTile = 32, kTileRowsAtOnce = 8;

__global__ void __launch_bounds__(kTile* kTileRowsAtOnce)
    transpose_tiles(const float* from, std::int64_t rows, std::int64_t cols, float* to) {
  __shared__ float tile[kTile][kTile + 1];
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = std::int64_t{blockIdx.x} * kTile, col = std::int64_t{blockIdx.y} * kTile;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kTileRowsAtOnce) {
    if (row + i < rows && col + thread < cols) tile[i][thread] = from[(row + i) * cols + col + thread];
  }
  __syncthreads();
#pragma unroll
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kTileRowsAtOnce) {
    if (col + i < cols && row + thread < rows) to[(col + i) * rows + row + thread] = tile[thread][i];
  }
}

unsigned tiles(std::int64_t size) { return static_cast<unsigned>((size + kTile - 1) / kTile); }

}  // namespace

void transpose(const ExecutionContext& execution, const float* from, std::int64_t rows, std::int64_t cols, float* to) {
  transpose_tiles<<<dim3(tiles(rows), tiles(cols)), dim3(kTile, kTileRowsAtOnce), 0,
                    static_cast<cudaStream_t>(execution.stream)>>>(from, rows, cols, to);
  strobe::cuda::check_launch("transpose");
}

}  // namespace strobe::ops::cuda
