// Implements column_sums() of launch.h. The columns are divided into strips. Each block sums one strip over every
// gridDim.y-th group of rows. If several blocks share a strip, a second kernel adds their partial sums in a fixed
// order. Also implements partial_sums.h.
#include <algorithm>
#include <string>

#include "device/gpu_facts.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/partial_sums.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr int kLanesAcross = 32, kRowsAtOnce = 8;  // threads of a block in x and y
constexpr int kBlocksPerProcessor = 4;

// Writes the final sums to `out` if gridDim.y is 1, otherwise partial sums [gridDim.y, columns].
template <class T, int N>
__global__ void __launch_bounds__(kLanesAcross* kRowsAtOnce)
    sum_rows(std::int64_t rows, std::int64_t columns, const T* x, float* out, Into into) {
  await_kernel_before();
  __shared__ float shared[kRowsAtOnce][kLanesAcross * N];
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kLanesAcross + threadIdx.x) * N;
  float sums[N] = {};
  if (i < columns) {
    for (std::int64_t row = blockIdx.y * kRowsAtOnce + threadIdx.y; row < rows; row += gridDim.y * kRowsAtOnce) {
      float values[N];
      load(x + row * columns + i, values);
#pragma unroll
      for (int n = 0; n < N; ++n) sums[n] += values[n];
    }
  }
#pragma unroll
  for (int n = 0; n < N; ++n) shared[threadIdx.y][n * kLanesAcross + threadIdx.x] = sums[n];
  __syncthreads();
  if (threadIdx.y != 0 || i >= columns) return;
  float* const to = out + blockIdx.y * columns + i;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    float sum = sums[n];
    for (int group = 1; group < kRowsAtOnce; ++group) sum += shared[group][n * kLanesAcross + threadIdx.x];
    to[n] = into == Into::sum ? to[n] + sum : sum;
  }
}

constexpr int kColumns = 32, kLanesOfRows = 32;

// Sums partial [count, width] over its rows. A block sums 32 columns; 32 threads share a column and take every 32nd
// row.
__global__ void __launch_bounds__(kColumns* kLanesOfRows)
    add_partial(const float* partial, int count, std::int64_t width, float* out, Into into) {
  await_kernel_before();
  __shared__ float sums[kLanesOfRows][kColumns + 1];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0;
  if (column < width) {
#pragma unroll 8
    for (int row = static_cast<int>(threadIdx.y); row < count; row += kLanesOfRows)
      sum += partial[row * width + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int lane = 1; lane < kLanesOfRows; ++lane) sum += sums[lane][threadIdx.x];
  out[column] = into == Into::sum ? out[column] + sum : sum;
}

// Returns the number of blocks that share a strip of columns. It is large enough to keep the GPU busy, but limited by
// the number of rows and by the workspace.
std::int64_t shares_of(const ExecutionContext& execution, const ColumnSums& shape, std::int64_t strips) {
  const std::int64_t wanted = std::int64_t{kBlocksPerProcessor} * current_gpu().facts.multiprocessors / strips;
  const std::int64_t groups = (shape.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  const auto fit = static_cast<std::int64_t>(execution.workspace_bytes / sizeof(float)) / shape.columns;
  return std::max<std::int64_t>(1, std::min({wanted, groups, fit}));
}

}  // namespace

PartialSums partial_sums(const ExecutionContext& execution, const char* what, std::int64_t wanted, std::int64_t width,
                         int kinds) {
  constexpr std::int64_t kMostOfProcessor = 8;
  constexpr std::size_t kMostShared = 47 << 10;  // shared memory of a kernel without opt-in (48 KB), minus the space
                                                 // for block reductions
  const std::size_t bytes = static_cast<std::size_t>(kinds) * static_cast<std::size_t>(width) * sizeof(float);
  const auto most = std::min<std::int64_t>(kMostOfProcessor * current_gpu().facts.multiprocessors,
                                           static_cast<std::int64_t>(execution.workspace_bytes / bytes));
  if (most < 1) {
    throw Error(ErrorCode::invalid_argument, std::string("ops: ") + what + "'s gradient of width " +
                                                 std::to_string(width) + " needs a workspace of " +
                                                 std::to_string(bytes) + " bytes or more; the workspace has " +
                                                 std::to_string(execution.workspace_bytes));
  }
  return {.partial = static_cast<float*>(execution.workspace),
          .blocks = static_cast<unsigned>(std::min(wanted, most)),
          .shared_bytes = bytes <= kMostShared ? bytes : 0};
}

void add_partial_sums(const ExecutionContext& execution, const float* partial, int count, std::int64_t width,
                      float* sums, Into into) {
  start_kernel(execution, "add_partial_sums",
               {static_cast<unsigned>((width + kColumns - 1) / kColumns), dim3(kColumns, kLanesOfRows)}, add_partial,
               partial, count, width, sums, into);
}

void column_sums(const ExecutionContext& execution, const ColumnSums& shape, const void* x, float* sums, Into into) {
  if (shape.columns == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.columns, x), [&]<int N>(std::integral_constant<int, N>) {
      const std::int64_t strips = (shape.columns + kLanesAcross * N - 1) / (kLanesAcross * N);
      const std::int64_t shares = shares_of(execution, shape, strips);
      auto* const partial = static_cast<float*>(execution.workspace);
      const dim3 grid(static_cast<unsigned>(strips), static_cast<unsigned>(shares));
      start_kernel(execution, "column_sums", {grid, dim3(kLanesAcross, kRowsAtOnce)}, sum_rows<T, N>, shape.rows,
                   shape.columns, static_cast<const T*>(x), shares == 1 ? sums : partial,
                   shares == 1 ? into : Into::set);
      if (shares > 1) add_partial_sums(execution, partial, static_cast<int>(shares), shape.columns, sums, into);
    });
  });
}

}  // namespace strobe::ops::cuda
