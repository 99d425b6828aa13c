// Implements AdamW and gradient norms of launch.h. AdamW makes one pass over memory: 28 bytes per parameter, plus the
// copy. A norm is summed in two stages, in a fixed order.
#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kUpdateThreads = 256;
constexpr int kNormBlocks = 1024;  // blocks per tensor for the norm; fixed, because it determines the order of sums

template <int N>
struct Columns {
  float value[N], mean[N], variance[N];
};

// Uses explicit FMAs. The bits of an element then do not depend on how its tensor is divided among ranks.
__device__ __forceinline__ void update_one(const Update& u, float gradient, float& value, float& mean,
                                           float& variance) {
  gradient *= u.gradient_scale;
  mean = fmaf(u.beta1, mean, u.rest1 * gradient);
  variance = fmaf(u.beta2, variance, u.rest2 * gradient * gradient);
  value = fmaf(value, u.shrink, -(u.rate * mean / fmaf(sqrtf(variance), u.unbias2, u.eps)));
}

// Updates N elements. T is the type of the copy; float means that there is no copy.
template <class T, int N>
__device__ __forceinline__ void update_columns(const Update& u, const Trained& t, std::int64_t i) {
  Columns<N> columns;
  float gradient[N];
  load(t.value + i, columns.value);
  load(t.gradient + i, gradient);
  load(t.mean + i, columns.mean);
  load(t.variance + i, columns.variance);
#pragma unroll
  for (int n = 0; n < N; ++n) update_one(u, gradient[n], columns.value[n], columns.mean[n], columns.variance[n]);
  store(t.value + i, columns.value);
  store(t.mean + i, columns.mean);
  store(t.variance + i, columns.variance);
  if constexpr (!std::is_same_v<T, float>) store(static_cast<T*>(t.copy) + i, columns.value);
}

// Returns the first of the thread's N elements. At the end of a tensor a thread may have fewer than N; it processes
// them one by one.
template <int N>
__device__ __forceinline__ std::int64_t first_element() {
  return (static_cast<std::int64_t>(blockIdx.x) * kUpdateThreads + threadIdx.x) * N;
}

// Rounds this thread's values to their copies.
template <class T, int N>
__device__ __forceinline__ void round_columns(const Trained& t) {
  const std::int64_t i = first_element<N>();
  if (i + N <= t.count) {
    float values[N];
    load(t.value + i, values);
    return store(static_cast<T*>(t.copy) + i, values);
  }
  for (std::int64_t left = i; left < t.count; ++left) static_cast<T*>(t.copy)[left] = narrowed<T>(t.value[left]);
}

template <class T, int N>
__global__ void __launch_bounds__(kUpdateThreads) adamw_step(const Update* update, Trained t) {
  const Update u = *update;
  if (u.skip != 0) {
    if constexpr (!std::is_same_v<T, float>) round_columns<T, N>(t);
    return;
  }
  const std::int64_t i = first_element<N>();
  if (i + N <= t.count) return update_columns<T, N>(u, t, i);
  for (std::int64_t left = i; left < t.count; ++left) update_columns<T, 1>(u, t, left);
}

template <class T, int N>
__global__ void __launch_bounds__(kUpdateThreads) round_values(Trained t) {
  round_columns<T, N>(t);
}

// Writes squares [kNormBlocks], each block's part of the sum of squares.
__global__ void __launch_bounds__(kUpdateThreads)
    add_squares(const float* gradient, std::int64_t count, double* squares) {
  constexpr std::int64_t kStep = std::int64_t{kNormBlocks} * kUpdateThreads * 4;
  double sum = 0;
  for (std::int64_t i = first_element<4>(); i < count; i += kStep) {
    float values[4] = {};
    if (i + 4 <= count && reinterpret_cast<std::uintptr_t>(gradient) % 16 == 0) {
      load(gradient + i, values);
    } else {
      for (int n = 0; n < 4 && i + n < count; ++n) values[n] = gradient[i + n];
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) sum += static_cast<double>(values[n]) * values[n];
  }
  sum = over_block<kUpdateThreads, Sum>(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kUpdateThreads) finish_norm(const double* squares, int count, Update* update) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kUpdateThreads) sum += squares[i];
  sum = over_block<kUpdateThreads, Sum>(sum);
  if (threadIdx.x == 0) apply_norm(*update, sqrt(sum) * update->gradient_scale);
}

template <int N>
unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>((count + N * kUpdateThreads - 1) / (N * kUpdateThreads));
}

// Returns true if the alignment of all arrays allows accesses of four elements.
bool is_aligned(const Trained& t) {
  const auto aligned = [](const void* pointer, std::size_t size) {
    return reinterpret_cast<std::uintptr_t>(pointer) % (4 * size) == 0;
  };
  for (const void* const pointer : {static_cast<const void*>(t.value), static_cast<const void*>(t.gradient),
                                    static_cast<const void*>(t.mean), static_cast<const void*>(t.variance)}) {
    if (!aligned(pointer, sizeof(float))) return false;
  }
  return aligned(t.copy, size_of(t.copy_dtype));
}

}  // namespace

void adamw(const ExecutionContext& execution, const Update* update, std::span<const Trained> tensors) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  for (const Trained& t : tensors) {
    if (t.count == 0) continue;
    with_element(t.copy ? t.copy_dtype : DType::fp32, [&]<class T>(T*) {
      if (is_aligned(t)) {
        adamw_step<T, 4><<<blocks_of<4>(t.count), kUpdateThreads, 0, stream>>>(update, t);
      } else {
        adamw_step<T, 1><<<blocks_of<1>(t.count), kUpdateThreads, 0, stream>>>(update, t);
      }
    });
    strobe::cuda::check_launch("adamw");
  }
}

void limit_gradients(const ExecutionContext& execution, std::span<const Trained> tensors, Update* update) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  // gradient_norm() stores its Update at the start of the workspace.
  auto* const squares = reinterpret_cast<double*>(static_cast<char*>(execution.workspace) + 1024);
  const std::size_t needed = 1024 + tensors.size() * kNormBlocks * sizeof(double);
  if (execution.workspace_bytes < needed) {
    throw Error(ErrorCode::invalid_argument, "ops: the norm of " + std::to_string(tensors.size()) +
                                                 " gradients needs a workspace of " + std::to_string(needed) +
                                                 " bytes or more; the workspace has " +
                                                 std::to_string(execution.workspace_bytes));
  }
  int blocks = 0;
  for (const Trained& t : tensors) {
    add_squares<<<kNormBlocks, kUpdateThreads, 0, stream>>>(t.gradient, t.count, squares + blocks);
    strobe::cuda::check_launch("add_squares");
    blocks += kNormBlocks;
  }
  finish_norm<<<1, kUpdateThreads, 0, stream>>>(squares, blocks, update);
  strobe::cuda::check_launch("finish_norm");
}

void round_copies(const ExecutionContext& execution, std::span<const Trained> tensors) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  for (const Trained& t : tensors) {
    if (!t.copy || t.count == 0) continue;
    with_element(t.copy_dtype, [&]<class T>(T*) {
      if (is_aligned(t)) {
        round_values<T, 4><<<blocks_of<4>(t.count), kUpdateThreads, 0, stream>>>(t);
      } else {
        round_values<T, 1><<<blocks_of<1>(t.count), kUpdateThreads, 0, stream>>>(t);
      }
    });
    strobe::cuda::check_launch("round_copies");
  }
}

void write(const ExecutionContext& execution, void* to, const void* host, std::size_t bytes) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  STROBE_CUDA_CHECK(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream));
  STROBE_CUDA_CHECK(cudaStreamSynchronize(stream));
}

void read(const ExecutionContext& execution, void* host, const void* from, std::size_t bytes) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  STROBE_CUDA_CHECK(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream));
  STROBE_CUDA_CHECK(cudaStreamSynchronize(stream));
}

}  // namespace strobe::ops::cuda
