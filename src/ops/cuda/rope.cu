// Implements rope() of launch.h. A thread rotates one vector of each token that its block visits.
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_grid.h"
#include "ops/cuda/start_kernel.cuh"

namespace strobe::ops::cuda {

namespace {

// Rotates N elements of one head per token, in pairs of adjacent elements.
template <class T, int N>
__global__ void __launch_bounds__(kMostRowThreads) rotate_pairs(Rope shape, const float* table, T* x, float sign) {
  await_kernel_before();
  const int dim = static_cast<int>(shape.head_dim), i = static_cast<int>(first_column<N>());
  if (i >= static_cast<int>(shape.heads) * dim) return;
  table += shape.first_position * dim + i % dim;
  for (unsigned token = blockIdx.y; token < shape.tokens; token += gridDim.y) {
    T* const at = x + token * shape.stride + i;
    float values[N], rotations[N];
    load(at, values);
    load(table + std::int64_t{token % static_cast<unsigned>(shape.context)} * dim, rotations);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      const float cosine = rotations[n], sine = sign * rotations[n + 1], even = values[n], odd = values[n + 1];
      values[n] = even * cosine - odd * sine;
      values[n + 1] = even * sine + odd * cosine;
    }
    store(at, values);
  }
}

template <class T, int N>
void rotate_tokens(const ExecutionContext& execution, const Rope& shape, const float* table, T* x, float sign) {
  const RowGrid grid = row_grid(shape.tokens, shape.heads * shape.head_dim / N);
  start_kernel(execution, "rope", {dim3(grid.parts, grid.rows), grid.threads}, rotate_pairs<T, N>, shape, table, x,
               sign);
}

}  // namespace

// head_dim is even (rope_table() rejects odd ones), so pairs are aligned if x and the stride are.
void rope(const ExecutionContext& execution, const Rope& shape, const float* table, void* x, Rotation rotation) {
  if (shape.tokens == 0) return;
  Rope full = shape;
  if (full.stride == 0) full.stride = full.heads * full.head_dim;
  const float sign = rotation == Rotation::forward ? 1.0f : -1.0f;
  with_element(shape.dtype, [&]<class T>(T*) {
    auto* const to = static_cast<T*>(x);
    if (fits_lanes<T>(full.head_dim, x, table) && full.stride % kLanes<T> == 0) {
      rotate_tokens<T, kLanes<T>>(execution, full, table, to, sign);
    } else if (full.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(x) % (2 * sizeof(T)) == 0) {
      rotate_tokens<T, 2>(execution, full, table, to, sign);
    } else {
      throw Error(ErrorCode::unsupported,
                  "ops: RoPE on CUDA needs an even stride of tokens and x aligned to two elements; "
                  "the stride is " +
                      std::to_string(full.stride));
    }
  });
}

}  // namespace strobe::ops::cuda
