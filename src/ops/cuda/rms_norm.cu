// Implements rms_norm() of launch.h and its gradient. If a row has at most one vector per thread of a block, the block
// keeps kRows rows at a time in registers. Otherwise it processes rows one by one. In the backward pass, blocks compute
// partial sums of the weight gradient, and a second kernel adds them in a fixed order.
#include <algorithm>

#include "device/gpu_facts.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/partial_sums.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

constexpr int kRmsNormThreads = 128;  // threads of blocks that process rows one by one
constexpr int kMostThreads = 512;     // maximum block size if rows stay in registers; 512 threads with 128 registers
                                      // each use all registers of a multiprocessor
constexpr int kRows = 4;              // rows that a block keeps in registers at a time

// Sums each value over kCount adjacent lanes of a warp.
template <int kCount>
__device__ __forceinline__ void sum_over_lanes(float (&values)[kRows]) {
#pragma unroll
  for (int step = kCount / 2; step > 0; step /= 2) {
#pragma unroll
    for (float& value : values) value += __shfl_xor_sync(0xffffffffu, value, step);
  }
}

// Sums each value over all threads of the block in a fixed order. All threads must call it, and all get the results.
__device__ __forceinline__ void sum_over_block(float (&values)[kRows]) {
  constexpr int kMostWarps = kMostThreads / 32;
  __shared__ __align__(16) float parts[kMostWarps][kRows];
  const unsigned of_warp = threadIdx.x % kMostWarps;
  sum_over_lanes<32>(values);
  __syncthreads();  // protects threads that still read the result of an earlier call
  if (threadIdx.x % 32 == 0) store(parts[threadIdx.x / 32], values);
  __syncthreads();
#pragma unroll
  for (float& value : values) value = 0;
  if (of_warp * 32 < blockDim.x) load(parts[of_warp], values);
  sum_over_lanes<kMostWarps>(values);
}

template <class T, int N>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_kept(RmsNorm norm, const T* x, const float* weight, T* y, float* inverse) {
  await_kernel_before();
  const int width = static_cast<int>(norm.width), i = static_cast<int>(threadIdx.x) * N;
  const std::int64_t first = std::int64_t{blockIdx.x} * kRows;
  const int rows = i < width ? static_cast<int>(min(std::int64_t{kRows}, norm.rows - first)) : 0;
  const std::int64_t at = first * width + i;
  Pack<T, N> kept[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r < rows) kept[r] = pack_at<N>(x + at + r * width);
  }
  float weights[N] = {};
  if (rows > 0) load(weight + i, weights);
  float squares[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) squares[r] += widened(kept[r].at[n]) * widened(kept[r].at[n]);
  }
  sum_over_block(squares);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float factor = 1 / sqrtf(squares[r] / static_cast<float>(width) + norm.eps);
    if (r >= rows) continue;
    if (i == 0) inverse[first + r] = factor;
    stay_packed(kept[r]);
    float values[N];
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = widened(kept[r].at[n]) * factor * weights[n];
    store(y + at + r * width, values);
  }
}

// Writes the block's partial sums of the weight gradient to its row of `partial` [blocks, width].
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_kept_backward(RmsNorm norm, RmsNormGradients t, float* partial) {
  await_kernel_before();
  const int width = static_cast<int>(norm.width), i = static_cast<int>(threadIdx.x) * N;
  const float share = 1 / static_cast<float>(width);
  float weights[N] = {}, sums[N] = {};
  if (i < width) load(t.weight + i, weights);
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRows; first < norm.rows;
       first += std::int64_t{gridDim.x} * kRows) {
    const int rows = i < width ? static_cast<int>(min(std::int64_t{kRows}, norm.rows - first)) : 0;
    const std::int64_t at = first * width + i;
    const T* const from = static_cast<const T*>(t.x) + at;
    const T* const gradient_from = static_cast<const T*>(t.dy) + at;
    T* const to = static_cast<T*>(t.dx) + at;
    Pack<T, N> x[kRows] = {}, dy[kRows] = {}, dx[kRows] = {};
    float inverse[kRows] = {}, dots[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) continue;
      x[r] = pack_at<N>(from + r * width);
      dy[r] = pack_at<N>(gradient_from + r * width);
      if (t.dx_into == Into::sum) dx[r] = pack_at<N>(to + r * width);
      inverse[r] = t.inverse[first + r];
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float gradient = widened(dy[r].at[n]), normed = widened(x[r].at[n]) * inverse[r];
        dots[r] += gradient * weights[n] * normed;
        sums[n] += gradient * normed;
      }
    }
    sum_over_block(dots);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) continue;
      stay_packed(x[r]);
      stay_packed(dy[r]);
      stay_packed(dx[r]);
      const float mean = dots[r] * share;
      float out[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float normed = widened(x[r].at[n]) * inverse[r];
        out[n] = widened(dx[r].at[n]) + inverse[r] * (widened(dy[r].at[n]) * weights[n] - normed * mean);
      }
      store(to + r * width, out);
    }
  }
  if (i < width) store(partial + std::int64_t{blockIdx.x} * width + i, sums);
}

template <class T, int N>
__global__ void __launch_bounds__(kRmsNormThreads)
    rms_norm_rows(RmsNorm norm, const T* x, const float* weight, T* y, float* inverse) {
  await_kernel_before();
  const int width = static_cast<int>(norm.width);
  const std::int64_t row = blockIdx.x;
  x += row * width;
  y += row * width;
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x) * N; i < width; i += kRmsNormThreads * N) {
    float values[N];
    load(x + i, values);
#pragma unroll
    for (int n = 0; n < N; ++n) squares += values[n] * values[n];
  }
  const float mean = over_block<kRmsNormThreads, Sum>(squares) / static_cast<float>(width);
  const float factor = 1 / sqrtf(mean + norm.eps);
  if (threadIdx.x == 0) inverse[row] = factor;
  for (int i = static_cast<int>(threadIdx.x) * N; i < width; i += kRmsNormThreads * N) {
    float values[N], weights[N];
    load(x + i, values);
    load(weight + i, weights);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = values[n] * factor * weights[n];
    store(y + i, values);
  }
}

// A thread processes the same columns [i, i + N) of every row, so sums need no atomics.
template <class T, int N>
__global__ void __launch_bounds__(kRmsNormThreads)
    rms_norm_rows_backward(RmsNorm norm, RmsNormGradients t, float* partial, bool sums_are_shared) {
  await_kernel_before();
  extern __shared__ __align__(16) float shared_sums[];
  const int width = static_cast<int>(norm.width), first = static_cast<int>(threadIdx.x) * N;
  float* const mine = partial + static_cast<std::int64_t>(blockIdx.x) * width;
  float* const sums = sums_are_shared ? shared_sums : mine;
  const float nothing[N] = {};
  for (int i = first; i < width; i += kRmsNormThreads * N) store(sums + i, nothing);
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const T* const x = static_cast<const T*>(t.x) + row * width;
    const T* const dy = static_cast<const T*>(t.dy) + row * width;
    T* const dx = static_cast<T*>(t.dx) + row * width;
    const float inverse = t.inverse[row];
    float dot = 0;
    for (int i = first; i < width; i += kRmsNormThreads * N) {
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
    const float mean = over_block<kRmsNormThreads, Sum>(dot) / static_cast<float>(width);
    for (int i = first; i < width; i += kRmsNormThreads * N) {
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
  for (int i = first; i < width; i += kRmsNormThreads * N) {
    float columns[N];
    load(sums + i, columns);
    store(mine + i, columns);
  }
}

// Returns the number of threads with one vector each, rounded up to whole warps.
template <int N>
unsigned threads_of(const RmsNorm& norm) {
  return static_cast<unsigned>((norm.width / N + 31) / 32 * 32);
}

std::int64_t groups_of_rows(const RmsNorm& norm) { return (norm.rows + kRows - 1) / kRows; }

}  // namespace

void rms_norm(const ExecutionContext& execution, const RmsNorm& norm, const void* x, const float* weight, void* y,
              float* inverse) {
  if (norm.rows == 0) return;
  with_element(norm.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(norm.width, x, weight, y), [&]<int N>(std::integral_constant<int, N>) {
      const auto* const from = static_cast<const T*>(x);
      auto* const to = static_cast<T*>(y);
      if (norm.width <= N * kMostThreads) {
        start_kernel(execution, "rms_norm", {static_cast<unsigned>(groups_of_rows(norm)), threads_of<N>(norm)},
                     rms_norm_kept<T, N>, norm, from, weight, to, inverse);
      } else {
        start_kernel(execution, "rms_norm", {static_cast<unsigned>(norm.rows), kRmsNormThreads}, rms_norm_rows<T, N>,
                     norm, from, weight, to, inverse);
      }
    });
  });
}

void rms_norm_backward(const ExecutionContext& execution, const RmsNorm& norm, const RmsNormGradients& t) {
  PartialSums sums{};
  with_element(norm.dtype, [&]<class T>(T*) {
    with_lanes<T>(fits_lanes<T>(norm.width, t.x, t.weight, t.dy, t.dx, execution.workspace),
                  [&]<int N>(std::integral_constant<int, N>) {
                    if (norm.width <= N * kMostThreads) {
                      const unsigned threads = threads_of<N>(norm);
                      const std::int64_t resident = kMostThreads / threads * current_gpu().facts.multiprocessors;
                      sums = partial_sums(execution, "RMSNorm", std::min(groups_of_rows(norm), resident), norm.width);
                      if (sums.blocks == 0) return;
                      start_kernel(execution, "rms_norm_backward", {sums.blocks, threads}, rms_norm_kept_backward<T, N>,
                                   norm, t, sums.partial);
                    } else {
                      sums = partial_sums(execution, "RMSNorm", norm.rows, norm.width);
                      if (sums.blocks == 0) return;
                      start_kernel(execution, "rms_norm_backward", {sums.blocks, kRmsNormThreads, sums.shared_bytes},
                                   rms_norm_rows_backward<T, N>, norm, t, sums.partial, sums.shared_bytes > 0);
                    }
                  });
  });
  add_partial_sums(execution, sums.partial, static_cast<int>(sums.blocks), norm.width, t.dweight, t.dweight_into);
}

}  // namespace strobe::ops::cuda
