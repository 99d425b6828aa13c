// Implements GELU and SwiGLU of launch.h, forward and backward. A thread processes one vector of each row that its
// block visits.
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_grid.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr float kPeak = 0.3989422804f;  // 1 / sqrt(2 pi), the peak of the normal density

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
      const float value = values[n];
      values[n] = gradient[n] * (normcdff(value) + value * kPeak * expf(-0.5f * value * value));
    }
    store(dx + at, values);
  }
}

}  // namespace

void gelu(const ExecutionContext& execution, const Gelu& shape, const void* x, void* y) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, x, y), [&]<int N>(std::integral_constant<int, N>) {
      const RowGrid grid = row_grid(shape.rows, shape.width / N);
      start_kernel(execution, "gelu", {dim3(grid.parts, grid.rows), grid.threads}, activate<T, N>, shape,
                   static_cast<const T*>(x), static_cast<T*>(y));
    });
  });
}

void gelu_backward(const ExecutionContext& execution, const Gelu& shape, const void* x, const void* dy, void* dx) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, x, dy, dx), [&]<int N>(std::integral_constant<int, N>) {
      const RowGrid grid = row_grid(shape.rows, shape.width / N);
      start_kernel(execution, "gelu_backward", {dim3(grid.parts, grid.rows), grid.threads}, activate_backward<T, N>,
                   shape, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
}

// --- SwiGLU ----------------------------------------------------------------------------------------------------------

namespace {

// Returns 1 / (1 + exp(-x)). For 16-bit elements it uses fast intrinsics, so that it costs less than the memory access.
// Their error is far below the rounding of 16-bit results.
template <class T>
__device__ __forceinline__ float sigmoid(float x) {
  if constexpr (sizeof(T) == 2) return __fdividef(1.0f, 1.0f + __expf(-x));
  return 1 / (1 + expf(-x));
}

template <class T, int N>
__global__ void __launch_bounds__(kMostRowThreads) gate(Swiglu shape, const T* ab, T* y) {
  await_kernel_before();
  const std::int64_t i = first_column<N>();
  if (i >= shape.width) return;
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    const T* const from = ab + row * 2 * shape.width + i;
    float a[N], b[N];
    load(from, a);
    load(from + shape.width, b);
#pragma unroll
    for (int n = 0; n < N; ++n) a[n] = a[n] * sigmoid<T>(a[n]) * b[n];
    store(y + row * shape.width + i, a);
  }
}

// Uses silu'(x) = s + x s (1 - s) with s = 1 / (1 + exp(-x)). dab may be ab.
template <class T, int N>
__global__ void __launch_bounds__(kMostRowThreads) gate_backward(Swiglu shape, const T* ab, const T* dy, T* dab) {
  await_kernel_before();
  const std::int64_t i = first_column<N>();
  if (i >= shape.width) return;
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    const std::int64_t at = row * 2 * shape.width + i;
    float a[N], b[N], gradient[N];
    load(ab + at, a);
    load(ab + at + shape.width, b);
    load(dy + row * shape.width + i, gradient);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float x = a[n], s = sigmoid<T>(x);
      a[n] = gradient[n] * b[n] * (s + x * s * (1 - s));
      b[n] = gradient[n] * x * s;
    }
    store(dab + at, a);
    store(dab + at + shape.width, b);
  }
}

}  // namespace

void swiglu(const ExecutionContext& execution, const Swiglu& shape, const void* ab, void* y) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, ab, y), [&]<int N>(std::integral_constant<int, N>) {
      const RowGrid grid = row_grid(shape.rows, shape.width / N);
      start_kernel(execution, "swiglu", {dim3(grid.parts, grid.rows), grid.threads}, gate<T, N>, shape,
                   static_cast<const T*>(ab), static_cast<T*>(y));
    });
  });
}

void swiglu_backward(const ExecutionContext& execution, const Swiglu& shape, const void* ab, const void* dy,
                     void* dab) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, ab, dy, dab), [&]<int N>(std::integral_constant<int, N>) {
      const RowGrid grid = row_grid(shape.rows, shape.width / N);
      start_kernel(execution, "swiglu_backward", {dim3(grid.parts, grid.rows), grid.threads}, gate_backward<T, N>,
                   shape, static_cast<const T*>(ab), static_cast<const T*>(dy), static_cast<T*>(dab));
    });
  });
}

}  // namespace strobe::ops::cuda
