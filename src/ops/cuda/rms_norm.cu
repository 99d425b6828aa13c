// A block a row forward; backward, blocks take rows in turns and keep the sums of the weight's gradient of their own,
// which a second kernel adds up in one order.
#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/partial_sums.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kThreads = 128;

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    rms_norm_rows(RmsNorm norm, const T* x, const float* weight, T* y, float* inverse) {
  const int width = static_cast<int>(norm.width);
  const std::int64_t row = blockIdx.x;
  x += row * width;
  y += row * width;
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x) * N; i < width; i += kThreads * N) {
    float values[N];
    load(x + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) squares += values[n] * values[n];
  }
  const float mean = over_block<kThreads, Sum>(squares) / static_cast<float>(width);
  const float factor = 1 / sqrtf(mean + norm.eps);
  if (threadIdx.x == 0) inverse[row] = factor;
  for (int i = static_cast<int>(threadIdx.x) * N; i < width; i += kThreads * N) {
    float values[N], weights[N];
    load(x + i, values);
    load(weight + i, weights);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = values[n] * factor * weights[n];
    store(y + i, values);
  }
}

// Columns [i, i + N) of a thread are its own in every row, so that sums need no atomics.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    rms_norm_rows_backward(RmsNorm norm, RmsNormGradients t, float* partial, bool sums_are_shared) {
  extern __shared__ __align__(16) float shared_sums[];
  const int width = static_cast<int>(norm.width), first = static_cast<int>(threadIdx.x) * N;
  float* const mine = partial + static_cast<std::int64_t>(blockIdx.x) * width;
  float* const sums = sums_are_shared ? shared_sums : mine;
  const float nothing[N] = {};
  for (int i = first; i < width; i += kThreads * N) store(sums + i, nothing);
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const T* const x = static_cast<const T*>(t.x) + row * width;
    const T* const dy = static_cast<const T*>(t.dy) + row * width;
    T* const dx = static_cast<T*>(t.dx) + row * width;
    const float inverse = t.inverse[row];
    float dot = 0;
    for (int i = first; i < width; i += kThreads * N) {
      float values[N], gradients[N], weights[N], columns[N];
      load(x + i, values);
      load(dy + i, gradients);
      load(t.weight + i, weights);
      load(sums + i, columns);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float normed = values[n] * inverse;
        dot += gradients[n] * weights[n] * normed;
        columns[n] += gradients[n] * normed;
      }
      store(sums + i, columns);
    }
    const float mean = over_block<kThreads, Sum>(dot) / static_cast<float>(width);
    for (int i = first; i < width; i += kThreads * N) {
      float values[N], gradients[N], weights[N], out[N] = {};
      load(x + i, values);
      load(dy + i, gradients);
      load(t.weight + i, weights);
      if (t.dx_into == Into::sum) load(dx + i, out);
#pragma unroll
      for (int n = 0; n < N; ++n) out[n] += inverse * (gradients[n] * weights[n] - values[n] * inverse * mean);
      store(dx + i, out);
    }
  }
  if (!sums_are_shared) return;
  for (int i = first; i < width; i += kThreads * N) {
    float columns[N];
    load(sums + i, columns);
    store(mine + i, columns);
  }
}

}  // namespace

void rms_norm(const Place& place, const RmsNorm& norm, const void* x, const float* weight, void* y, float* inverse) {
  if (norm.rows == 0) return;
  with_element(norm.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(norm.width, x, weight, y), [&]<int N>(std::integral_constant<int, N>) {
      rms_norm_rows<T, N><<<static_cast<unsigned>(norm.rows), kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(
          norm, static_cast<const T*>(x), weight, static_cast<T*>(y), inverse);
    });
  });
  strobe::cuda::check_launch("rms_norm");
}

void rms_norm_backward(const Place& place, const RmsNorm& norm, const RmsNormGradients& t) {
  const auto sums = partial_sums(place, "RMSNorm", norm.rows, norm.width);
  if (sums.blocks > 0) {
    const bool shared = sums.shared_bytes > 0;
    with_element(norm.dtype, [&]<class T>(T*) {
      with_lanes<T>(fits_lanes<T>(norm.width, t.x, t.weight, t.dy, t.dx, sums.partial),
                    [&]<int N>(std::integral_constant<int, N>) {
                      rms_norm_rows_backward<T, N>
                          <<<sums.blocks, kThreads, sums.shared_bytes, static_cast<cudaStream_t>(place.stream)>>>(
                              norm, t, sums.partial, shared);
                    });
    });
    strobe::cuda::check_launch("rms_norm_backward");
  }
  add_partial_sums(place, sums.partial, static_cast<int>(sums.blocks), norm.width, t.dweight, t.dweight_into);
}

}  // namespace strobe::ops::cuda
