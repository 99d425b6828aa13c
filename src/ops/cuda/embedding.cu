// Implements embedding() of launch.h and its gradient, one block per token position. In a deterministic backward pass,
// the block of a token's first occurrence adds the gradients of all its occurrences in order. Otherwise every block
// adds its gradient with atomics.
#include "device/cuda/check.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kTokenThreads = 128;

template <class T, int N>
__global__ void __launch_bounds__(kTokenThreads)
    gather(int width, const std::int32_t* token, const float* table, T* y, Positions positions) {
  const std::int64_t t = blockIdx.x;
  const float* const from = table + static_cast<std::int64_t>(token[t]) * width;
  const float* const position = positions.table ? positions.table + t % positions.context * width : nullptr;
  for (int i = static_cast<int>(threadIdx.x) * N; i < width; i += kTokenThreads * N) {
    float values[N];
    load(from + i, values);
    if (position) {
      float more[N];
      load(position + i, more);
#pragma unroll
      for (int n = 0; n < N; ++n) values[n] += more[n];
    }
    store(y + t * width + i, values);
  }
}

// Returns true if any of token[0, count) is `wanted`. All threads of the block must call it, and all get the result.
__device__ bool occurs(const std::int32_t* token, int count, std::int32_t wanted) {
  bool found = false;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kTokenThreads) found |= token[i] == wanted;
  return __syncthreads_or(found);
}

template <class T, int N>
__global__ void __launch_bounds__(kTokenThreads)
    scatter_in_order(int tokens, int width, const std::int32_t* token, const T* dy, float* dtable) {
  __shared__ int warp_count[kTokenThreads / 32];
  __shared__ int equal[kTokenThreads];  // positions of this token in a window of kTokenThreads tokens, in order
  const int t = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const std::int32_t mine = token[t];
  if (occurs(token, t, mine)) return;
  float* const to = dtable + static_cast<std::int64_t>(mine) * width;
  for (int begin = t; begin < tokens; begin += kTokenThreads) {
    const int at = begin + thread;
    const bool is_equal = at < tokens && token[at] == mine;
    const unsigned ballot = __ballot_sync(0xffffffffu, is_equal);
    __syncthreads();  // all threads have finished the previous window
    if (thread % 32 == 0) warp_count[thread / 32] = __popc(ballot);
    __syncthreads();
    int before = 0, count = 0;
    for (int warp = 0; warp < kTokenThreads / 32; ++warp) {
      if (warp < thread / 32) before += warp_count[warp];
      count += warp_count[warp];
    }
    if (is_equal) equal[before + __popc(ballot & ((1u << (thread % 32)) - 1))] = at;
    __syncthreads();
    if (count == 0) continue;
    for (int i = thread * N; i < width; i += kTokenThreads * N) {
      float sums[N];
      load(to + i, sums);
      for (int n = 0; n < count; ++n) {
        float values[N];
        load(dy + static_cast<std::int64_t>(equal[n]) * width + i, values);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) sums[lane] += values[lane];
      }
      store(to + i, sums);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kTokenThreads)
    scatter_by_atomics(int width, const std::int32_t* token, const T* dy, float* dtable) {
  const std::int64_t t = blockIdx.x;
  float* const to = dtable + static_cast<std::int64_t>(token[t]) * width;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kTokenThreads)
    atomicAdd(to + i, widened(dy[t * width + i]));
}

}  // namespace

void embedding(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token, const float* table,
               void* y, const Positions& positions) {
  if (shape.tokens == 0) return;
  with_element(shape.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(shape.width, table, y, positions.table), [&]<int N>(std::integral_constant<int, N>) {
      gather<T, N>
          <<<static_cast<unsigned>(shape.tokens), kTokenThreads, 0, static_cast<cudaStream_t>(execution.stream)>>>(
              static_cast<int>(shape.width), token, table, static_cast<T*>(y), positions);
    });
  });
  strobe::cuda::check_launch("embedding");
}

void embedding_backward(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token,
                        const void* dy, float* dtable, Into into) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  const std::size_t bytes = static_cast<std::size_t>(shape.vocabulary * shape.width) * sizeof(float);
  if (into == Into::set) STROBE_CUDA_CHECK(cudaMemsetAsync(dtable, 0, bytes, stream));
  if (shape.tokens == 0) return;
  const auto blocks = static_cast<unsigned>(shape.tokens);
  const int width = static_cast<int>(shape.width);
  with_element(shape.dtype, [&]<class T>(T*) {
    const auto* const from = static_cast<const T*>(dy);
    if (!execution.deterministic) {
      scatter_by_atomics<<<blocks, kTokenThreads, 0, stream>>>(width, token, from, dtable);
      return;
    }
    with_lanes<T>(fits_lanes<T>(shape.width, dy, dtable), [&]<int N>(std::integral_constant<int, N>) {
      scatter_in_order<T, N>
          <<<blocks, kTokenThreads, 0, stream>>>(static_cast<int>(shape.tokens), width, token, from, dtable);
    });
  });
  strobe::cuda::check_launch("embedding_backward");
}

}  // namespace strobe::ops::cuda
