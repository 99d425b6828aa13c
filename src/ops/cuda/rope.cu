// A block a token.
#include "device/cuda/check.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

constexpr int kThreads = 128;

// N elements of one head at a time: pairs of neighbours.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) turn_pairs(Rope shape, const float* table, T* x, float sign) {
  const std::int64_t token = blockIdx.x, position = shape.first_position + token % shape.context;
  const int dim = static_cast<int>(shape.head_dim), columns = static_cast<int>(shape.heads) * dim;
  x += token * shape.stride;
  table += position * dim;
  for (int i = static_cast<int>(threadIdx.x) * N; i < columns; i += kThreads * N) {
    float values[N], turns[N];
    load(x + i, values);
    load(table + i % dim, turns);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      const float cosine = turns[n], sine = sign * turns[n + 1], even = values[n], odd = values[n + 1];
      values[n] = even * cosine - odd * sine;
      values[n + 1] = even * sine + odd * cosine;
    }
    store(x + i, values);
  }
}

}  // namespace

// head_dim is even (rope_table refuses others), so that pairs are aligned where x and the stride are.
void rope(const Place& place, const Rope& shape, const float* table, void* x, Turn turn) {
  if (shape.tokens == 0) return;
  Rope full = shape;
  if (full.stride == 0) full.stride = full.heads * full.head_dim;
  const float sign = turn == Turn::forward ? 1.0f : -1.0f;
  const auto stream = static_cast<cudaStream_t>(place.stream);
  const auto blocks = static_cast<unsigned>(shape.tokens);
  with_element(shape.dtype, [&]<class T>(T*) {
    auto* const to = static_cast<T*>(x);
    if (fits_lanes<T>(full.head_dim, x, table) && full.stride % kLanes<T> == 0) {
      turn_pairs<T, kLanes<T>><<<blocks, kThreads, 0, stream>>>(full, table, to, sign);
    } else if (full.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(x) % (2 * sizeof(T)) == 0) {
      turn_pairs<T, 2><<<blocks, kThreads, 0, stream>>>(full, table, to, sign);
    } else {
      throw Error(ErrorCode::unsupported,
                  "ops: RoPE on CUDA takes tokens an even number of elements apart, aligned to "
                  "two; the stride is " +
                      std::to_string(full.stride));
    }
  });
  strobe::cuda::check_launch("rope");
}

}  // namespace strobe::ops::cuda
