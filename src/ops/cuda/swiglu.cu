// A vector a thread.
#include "device/cuda/check.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kThreads = 128;

// Where the thread's columns begin: blockIdx.x is the row, blockIdx.y a part of it.
template <int N>
__device__ __forceinline__ std::int64_t first_column() {
  return (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
}

// 1 / (1 + exp(-x)); within two units of fp32 where elements are rounded to 16 bits, which then costs less than memory.
template <class T>
__device__ __forceinline__ float sigmoid(float x) {
  if constexpr (sizeof(T) == 2) return __fdividef(1.0f, 1.0f + __expf(-x));
  return 1 / (1 + expf(-x));
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) gate(std::int64_t width, const T* ab, T* y) {
  const std::int64_t row = blockIdx.x, i = first_column<N>();
  if (i >= width) return;
  float a[N], b[N];
  load(ab + row * 2 * width + i, a);
  load(ab + row * 2 * width + width + i, b);
#pragma unroll
  for (int n = 0; n < N; ++n) a[n] = a[n] * sigmoid<T>(a[n]) * b[n];
  store(y + row * width + i, a);
}

// silu'(x) = s + x s (1 - s), s = 1 / (1 + exp(-x)). dab may be ab.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) gate_backward(std::int64_t width, const T* ab, const T* dy, T* dab) {
  const std::int64_t row = blockIdx.x, i = first_column<N>();
  if (i >= width) return;
  float a[N], b[N], gradient[N];
  load(ab + row * 2 * width + i, a);
  load(ab + row * 2 * width + width + i, b);
  load(dy + row * width + i, gradient);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float x = a[n], s = sigmoid<T>(x);
    a[n] = gradient[n] * b[n] * (s + x * s * (1 - s));
    b[n] = gradient[n] * x * s;
  }
  store(dab + row * 2 * width + i, a);
  store(dab + row * 2 * width + width + i, b);
}

template <int N>
dim3 grid_of(const Swiglu& shape) {
  return {static_cast<unsigned>(shape.rows), static_cast<unsigned>((shape.width + N * kThreads - 1) / (N * kThreads))};
}

}  // namespace

void swiglu(const Place& place, const Swiglu& shape, const void* ab, void* y) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, ab, y), [&]<int N>(std::integral_constant<int, N>) {
      gate<T, N><<<grid_of<N>(shape), kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(
          shape.width, static_cast<const T*>(ab), static_cast<T*>(y));
    });
  });
  strobe::cuda::check_launch("swiglu");
}

void swiglu_backward(const Place& place, const Swiglu& shape, const void* ab, const void* dy, void* dab) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, ab, dy, dab), [&]<int N>(std::integral_constant<int, N>) {
      gate_backward<T, N><<<grid_of<N>(shape), kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(
          shape.width, static_cast<const T*>(ab), static_cast<const T*>(dy), static_cast<T*>(dab));
    });
  });
  strobe::cuda::check_launch("swiglu_backward");
}

}  // namespace strobe::ops::cuda
