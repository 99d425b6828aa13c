// A vector a thread.
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_grid.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr float kPeak = 0.3989422804f;  // 1 / sqrt(2 pi), of the normal density

template <class T, int N>
__global__ void __launch_bounds__(kMostRowThreads) activate(Gelu shape, const T* x, T* y) {
  await_kernel_before();
  const std::int64_t i = first_column<N>();
  if (i >= shape.width) return;
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    float values[N];
    load(x + row * shape.width + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] *= normcdff(values[n]);
    store(y + row * shape.width + i, values);
  }
}

// dx may be x.
template <class T, int N>
__global__ void __launch_bounds__(kMostRowThreads) activate_backward(Gelu shape, const T* x, const T* dy, T* dx) {
  await_kernel_before();
  const std::int64_t i = first_column<N>();
  if (i >= shape.width) return;
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    const std::int64_t at = row * shape.width + i;
    float values[N], gradient[N];
    load(x + at, values);
    load(dy + at, gradient);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float here = values[n];
      values[n] = gradient[n] * (normcdff(here) + here * kPeak * expf(-0.5f * here * here));
    }
    store(dx + at, values);
  }
}

}  // namespace

void gelu(const Place& place, const Gelu& shape, const void* x, void* y) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, x, y), [&]<int N>(std::integral_constant<int, N>) {
      const RowGrid grid = row_grid(shape.rows, shape.width / N);
      start_kernel(place, "gelu", {dim3(grid.parts, grid.rows), grid.threads}, activate<T, N>, shape,
                   static_cast<const T*>(x), static_cast<T*>(y));
    });
  });
}

void gelu_backward(const Place& place, const Gelu& shape, const void* x, const void* dy, void* dx) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, x, dy, dx), [&]<int N>(std::integral_constant<int, N>) {
      const RowGrid grid = row_grid(shape.rows, shape.width / N);
      start_kernel(place, "gelu_backward", {dim3(grid.parts, grid.rows), grid.threads}, activate_backward<T, N>, shape,
                   static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
}

}  // namespace strobe::ops::cuda
