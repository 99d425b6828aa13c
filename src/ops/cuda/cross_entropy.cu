// Implements cross_entropy() of launch.h, one block per row. The gradient needs each logit twice, but a row that fits
// in shared memory is read from global memory only once.
#include <cmath>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr int kEntropyThreads = 256;
constexpr std::size_t kMostShared = 47 << 10;  // shared memory of a kernel without opt-in (48 KB), minus the space for
                                               // block reductions

// State of the online softmax: the largest logit so far and the sum of exp(logit - largest).
struct Online {
  float largest, sum;
};

// If kKeeps, the kernel keeps a copy of the row in shared memory.
template <class T, int N, bool kKeeps>
__global__ void __launch_bounds__(kEntropyThreads)
    cross_entropy_rows(CrossEntropy shape, T* logits, const std::int32_t* target, float* losses, LogitsBecome become) {
  await_kernel_before();
  extern __shared__ __align__(16) unsigned char shared[];
  T* const kept = reinterpret_cast<T*>(shared);
  const int count = static_cast<int>(shape.vocabulary), first = static_cast<int>(threadIdx.x) * N;
  const std::int64_t row = blockIdx.x;
  T* const at = logits + row * count;
  const int wanted = target[row];
  const float wanted_logit = widened(at[wanted]);  // read before any write: over_block() synchronizes all threads
  Online online{-INFINITY, 0};
  for (int i = first; i < count; i += kEntropyThreads * N) {
    const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(at + i);
    if constexpr (kKeeps) *reinterpret_cast<Pack<T, N>*>(kept + i) = pack;
    float largest = online.largest;
#pragma unroll
    for (int n = 0; n < N; ++n) largest = fmaxf(largest, widened(pack.at[n]));
    float sum = online.sum * expf(online.largest - largest);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += expf(widened(pack.at[n]) - largest);
    online = {largest, sum};
  }
  const float largest = over_block<kEntropyThreads, Largest>(online.largest);
  const float sum = over_block<kEntropyThreads, Sum>(online.sum * expf(online.largest - largest));
  const float log_sum = largest + logf(sum);
  if (threadIdx.x == 0) losses[row] = log_sum - wanted_logit;
  if (become == LogitsBecome::untouched) return;
  const float scale =
      shape.gradient_scale * (shape.loss_scale ? *shape.loss_scale : 1.0f) / static_cast<float>(shape.rows);
  for (int i = first; i < count; i += kEntropyThreads * N) {  // each thread overwrites only elements that it read
    float values[N];
    load(kKeeps ? kept + i : at + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = (expf(values[n] - log_sum) - (i + n == wanted ? 1.0f : 0.0f)) * scale;
    store(at + i, values);
  }
}

}  // namespace

void cross_entropy(const ExecutionContext& execution, const CrossEntropy& shape, void* logits,
                   const std::int32_t* target, float* losses, LogitsBecome become) {
  if (shape.rows == 0) return;
  const auto blocks = static_cast<unsigned>(shape.rows);
  const std::size_t row_bytes = static_cast<std::size_t>(shape.vocabulary) * size_of(shape.dtype);
  const bool keeps = become == LogitsBecome::gradient && row_bytes <= kMostShared;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.vocabulary, logits), [&]<int N>(std::integral_constant<int, N>) {
      auto* const at = static_cast<T*>(logits);
      if (keeps) {
        start_kernel(execution, "cross_entropy", {blocks, kEntropyThreads, row_bytes}, cross_entropy_rows<T, N, true>,
                     shape, at, target, losses, become);
      } else {
        start_kernel(execution, "cross_entropy", {blocks, kEntropyThreads}, cross_entropy_rows<T, N, false>, shape, at,
                     target, losses, become);
      }
    });
  });
}

}  // namespace strobe::ops::cuda
