// Implements layer_norm() of launch.h and its gradient. The forward pass has one block per row. In the backward pass,
// blocks loop over rows with a grid stride and keep partial sums of the parameter gradients. A second kernel adds the
// partial sums in a fixed order.
#include <algorithm>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/partial_sums.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr int kLayerNormThreads = 128;

template <class T, int N>
__global__ void __launch_bounds__(kLayerNormThreads) layer_norm_rows(LayerNorm norm, LayerNormTensors t) {
  await_kernel_before();
  const int width = static_cast<int>(norm.width), first = static_cast<int>(threadIdx.x) * N;
  const std::int64_t row = blockIdx.x;
  const T* const x = static_cast<const T*>(t.x) + row * width;
  T* const y = static_cast<T*>(t.y) + row * width;
  float sum = 0;
  for (int i = first; i < width; i += kLayerNormThreads * N) {
    float values[N];
    load(x + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += values[n];
  }
  const float mean = over_block<kLayerNormThreads, Sum>(sum) / static_cast<float>(width);
  float squares = 0;
  for (int i = first; i < width; i += kLayerNormThreads * N) {
    float values[N];
    load(x + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) squares += (values[n] - mean) * (values[n] - mean);
  }
  const float variance = over_block<kLayerNormThreads, Sum>(squares) / static_cast<float>(width);
  const float inverse = 1 / sqrtf(variance + norm.eps);
  if (threadIdx.x == 0) {
    t.statistics[2 * row] = mean;
    t.statistics[2 * row + 1] = inverse;
  }
  for (int i = first; i < width; i += kLayerNormThreads * N) {
    float values[N], weights[N], biases[N];
    load(x + i, values);
    load(t.weight + i, weights);
    load(t.bias + i, biases);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = (values[n] - mean) * inverse * weights[n] + biases[n];
    store(y + i, values);
  }
}

// A thread processes the same columns [i, i + N) of every row, so sums need no atomics. The block's sums [2, width],
// for the gradients of weight and bias, are in shared memory or in its part of `partial` [2, blocks, width].
template <class T, int N>
__global__ void __launch_bounds__(kLayerNormThreads)
    layer_norm_rows_backward(LayerNorm norm, LayerNormGradients t, float* partial, bool sums_are_shared) {
  await_kernel_before();
  extern __shared__ __align__(16) float shared_sums[];
  const int width = static_cast<int>(norm.width), first = static_cast<int>(threadIdx.x) * N;
  float* const my_weight = partial + static_cast<std::int64_t>(blockIdx.x) * width;
  float* const my_bias = my_weight + static_cast<std::int64_t>(gridDim.x) * width;
  float* const of_weight = sums_are_shared ? shared_sums : my_weight;
  float* const of_bias = sums_are_shared ? shared_sums + width : my_bias;
  const float nothing[N] = {};
  for (int i = first; i < width; i += kLayerNormThreads * N) {
    store(of_weight + i, nothing);
    store(of_bias + i, nothing);
  }
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const T* const x = static_cast<const T*>(t.x) + row * width;
    const T* const dy = static_cast<const T*>(t.dy) + row * width;
    T* const dx = static_cast<T*>(t.dx) + row * width;
    const float mean = t.statistics[2 * row], inverse = t.statistics[2 * row + 1];
    float sum = 0, dot = 0;
    for (int i = first; i < width; i += kLayerNormThreads * N) {
      float values[N], gradients[N], weights[N], weight_sums[N], bias_sums[N];
      load(x + i, values);
      load(dy + i, gradients);
      load(t.weight + i, weights);
      load(of_weight + i, weight_sums);
      load(of_bias + i, bias_sums);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float normed = (values[n] - mean) * inverse;
        sum += gradients[n] * weights[n];
        dot += gradients[n] * weights[n] * normed;
        weight_sums[n] += gradients[n] * normed;
        bias_sums[n] += gradients[n];
      }
      store(of_weight + i, weight_sums);
      store(of_bias + i, bias_sums);
    }
    const float mean_g = over_block<kLayerNormThreads, Sum>(sum) / static_cast<float>(width);
    const float mean_gn = over_block<kLayerNormThreads, Sum>(dot) / static_cast<float>(width);
    for (int i = first; i < width; i += kLayerNormThreads * N) {
      float values[N], gradients[N], weights[N], out[N] = {};
      load(x + i, values);
      load(dy + i, gradients);
      load(t.weight + i, weights);
      if (t.dx_into == Into::sum) load(dx + i, out);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float normed = (values[n] - mean) * inverse;
        out[n] += inverse * (gradients[n] * weights[n] - mean_g - normed * mean_gn);
      }
      store(dx + i, out);
    }
  }
  if (!sums_are_shared) return;
  for (int i = first; i < width; i += kLayerNormThreads * N) {
    float columns[N];
    load(of_weight + i, columns);
    store(my_weight + i, columns);
    load(of_bias + i, columns);
    store(my_bias + i, columns);
  }
}

}  // namespace

void layer_norm(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormTensors& t) {
  if (norm.rows == 0) return;
  with_element(norm.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(norm.width, t.x, t.weight, t.bias, t.y), [&]<int N>(std::integral_constant<int, N>) {
      start_kernel(execution, "layer_norm", {static_cast<unsigned>(norm.rows), kLayerNormThreads},
                   layer_norm_rows<T, N>, norm, t);
    });
  });
}

void layer_norm_backward(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormGradients& t) {
  const auto sums = partial_sums(execution, "LayerNorm", norm.rows, norm.width, 2);
  if (sums.blocks > 0) {
    const bool shared = sums.shared_bytes > 0;
    with_element(norm.dtype, [&]<class T>(T*) {
      const bool fits = fits_lanes<T>(norm.width, t.x, t.weight, t.dy, t.dx, sums.partial);
      with_lanes<T>(fits, [&]<int N>(std::integral_constant<int, N>) {
        start_kernel(execution, "layer_norm_backward", {sums.blocks, kLayerNormThreads, sums.shared_bytes},
                     layer_norm_rows_backward<T, N>, norm, t, sums.partial, shared);
      });
    });
  }
  const int count = static_cast<int>(sums.blocks);
  add_partial_sums(execution, sums.partial, count, norm.width, t.dweight, t.parameters_into);
  add_partial_sums(execution, sums.partial + static_cast<std::int64_t>(sums.blocks) * norm.width, count, norm.width,
                   t.dbias, t.parameters_into);
}

}  // namespace strobe::ops::cuda
