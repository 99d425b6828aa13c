// Implements causal_softmax() of launch.h and its gradient over materialised scores, in place, with one block per row.
#include <cmath>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr int kSoftmaxThreads = 128;

// Row i of a matrix uses the keys [0, i]. A thread writes only elements that no other thread reads.
template <class T, int N>
__global__ void __launch_bounds__(kSoftmaxThreads) causal_softmax_rows(T* scores, int context) {
  await_kernel_before();
  const std::int64_t row = blockIdx.x;
  T* const at = scores + row * context;
  const int allowed = static_cast<int>(row % context) + 1, first = static_cast<int>(threadIdx.x) * N;
  float highest = -INFINITY, sum = 0;
  for (int i = first; i < allowed; i += kSoftmaxThreads * N) {
    float values[N];
    load(at + i, values);
    float higher = highest;
#pragma unroll
    for (int n = 0; n < N; ++n) higher = i + n < allowed ? fmaxf(higher, values[n]) : higher;
    if (higher == -INFINITY) continue;
    sum *= expf(highest - higher);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += i + n < allowed ? expf(values[n] - higher) : 0.0f;
    highest = higher;
  }
  const float highest_of_row = over_block<kSoftmaxThreads, Largest>(highest);
  const float sum_of_thread = highest == -INFINITY ? 0.0f : sum * expf(highest - highest_of_row);
  const float inverse = 1 / over_block<kSoftmaxThreads, Sum>(sum_of_thread);
  for (int i = first; i < context; i += kSoftmaxThreads * N) {
    float values[N] = {};
    if (i < allowed) load(at + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = i + n < allowed ? expf(values[n] - highest_of_row) * inverse : 0.0f;
    store(at + i, values);
  }
}

// `gradient` is with respect to the probabilities on input and with respect to the scores on output.
template <class T, int N>
__global__ void __launch_bounds__(kSoftmaxThreads)
    causal_softmax_backward_rows(const T* probabilities, T* gradient, int context) {
  await_kernel_before();
  const std::int64_t row = blockIdx.x;
  const T* const p = probabilities + row * context;
  T* const at = gradient + row * context;
  const int allowed = static_cast<int>(row % context) + 1, first = static_cast<int>(threadIdx.x) * N;
  float delta = 0;
  for (int i = first; i < allowed; i += kSoftmaxThreads * N) {
    float probability[N], values[N];
    load(p + i, probability);
    load(at + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) delta += i + n < allowed ? probability[n] * values[n] : 0.0f;
  }
  delta = over_block<kSoftmaxThreads, Sum>(delta);
  for (int i = first; i < context; i += kSoftmaxThreads * N) {
    float probability[N] = {}, values[N] = {};
    if (i < allowed) {
      load(p + i, probability);
      load(at + i, values);
    }
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = i + n < allowed ? probability[n] * (values[n] - delta) : 0.0f;
    store(at + i, values);
  }
}

}  // namespace

void causal_softmax(const ExecutionContext& execution, const ScoreRows& shape, void* scores) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.context, scores), [&]<int N>(std::integral_constant<int, N>) {
      start_kernel(execution, "causal_softmax", {static_cast<unsigned>(shape.rows), kSoftmaxThreads},
                   causal_softmax_rows<T, N>, static_cast<T*>(scores), static_cast<int>(shape.context));
    });
  });
}

void causal_softmax_backward(const ExecutionContext& execution, const ScoreRows& shape, const void* probabilities,
                             void* gradient) {
  if (shape.rows == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.context, probabilities, gradient), [&]<int N>(std::integral_constant<int, N>) {
      start_kernel(execution, "causal_softmax_backward", {static_cast<unsigned>(shape.rows), kSoftmaxThreads},
                   causal_softmax_backward_rows<T, N>, static_cast<const T*>(probabilities), static_cast<T*>(gradient),
                   static_cast<int>(shape.context));
    });
  });
}

}  // namespace strobe::ops::cuda
