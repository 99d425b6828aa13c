// A vector a thread.
#include "device/cuda/check.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kThreads = 128;
constexpr float kPeak = 0.3989422804f;  // 1 / sqrt(2 pi), of the normal density

// Where the thread's columns begin: blockIdx.x is the row, blockIdx.y a part of it.
template <int N>
__device__ __forceinline__ std::int64_t first_column() {
  return (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) activate(std::int64_t width, const T* x, T* y) {
  const std::int64_t row = blockIdx.x, i = first_column<N>();
  if (i >= width) return;
  float values[N];
  load(x + row * width + i, values);
#pragma unroll
  for (int n = 0; n < N; ++n) values[n] *= normcdff(values[n]);
  store(y + row * width + i, values);
}

// dx may be x.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) activate_backward(std::int64_t width, const T* x, const T* dy, T* dx) {
  const std::int64_t row = blockIdx.x, i = first_column<N>();
  if (i >= width) return;
  float values[N], gradient[N];
  load(x + row * width + i, values);
  load(dy + row * width + i, gradient);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float at = values[n];
    values[n] = gradient[n] * (normcdff(at) + at * kPeak * expf(-0.5f * at * at));
  }
  store(dx + row * width + i, values);
}

template <int N>
dim3 grid_of(const Gelu& shape) {
  return {static_cast<unsigned>(shape.rows), static_cast<unsigned>((shape.width + N * kThreads - 1) / (N * kThreads))};
}

}  // namespace

void gelu(const Place& place, const Gelu& shape, const void* x, void* y) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, x, y), [&]<int N>(std::integral_constant<int, N>) {
      activate<T, N><<<grid_of<N>(shape), kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(
          shape.width, static_cast<const T*>(x), static_cast<T*>(y));
    });
  });
  strobe::cuda::check_launch("gelu");
}

void gelu_backward(const Place& place, const Gelu& shape, const void* x, const void* dy, void* dx) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, x, dy, dx), [&]<int N>(std::integral_constant<int, N>) {
      activate_backward<T, N><<<grid_of<N>(shape), kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(
          shape.width, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
  strobe::cuda::check_launch("gelu_backward");
}

}  // namespace strobe::ops::cuda
