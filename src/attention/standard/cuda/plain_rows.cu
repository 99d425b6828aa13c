// Softmax over materialised scores and its gradient, for problems without score options whose rows fit in the registers
// of their threads. Each score is then read and written only once. Rounds at the same steps as softmax.cu and
// softmax_backward.cu.
#include <algorithm>
#include <type_traits>

#include "attention/standard/cuda/rows.h"
#include "attention/standard/cuda/score_rows.cuh"
#include "device/cuda/check.h"

namespace strobe::standard {

namespace {

constexpr int kVectors = 4;  // vectors of 8 adjacent scores per thread
constexpr int kLeastThreads = 128;

// 8 adjacent scores. Rows are padded to a multiple of 8 scores and start at multiples of 16 bytes.
template <class T>
struct Vector8 {
  static constexpr int kWords = static_cast<int>(sizeof(T)) * 8 / 16;
  uint4 words[kWords];

  __device__ explicit Vector8(const T* from) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] = reinterpret_cast<const uint4*>(from)[w];
  }
  __device__ explicit Vector8(const float (&values)[8]) {
#pragma unroll
    for (int e = 0; e < 8; ++e) reinterpret_cast<T*>(words)[e] = narrowed<T>(values[e]);
  }
  __device__ float operator[](int e) const { return widened(reinterpret_cast<const T*>(words)[e]); }
  __device__ void store(T* to) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) reinterpret_cast<uint4*>(to)[w] = words[w];
  }
};

// Reduces over the kThreads threads that hold a row, which are a warp or the block.
template <int kThreads, class Combine>
__device__ float over_row(float x, Combine combine, float* scratch) {
  if constexpr (kThreads == 32) {
    for (int step = 16; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
  } else {
    return over_block(x, combine, scratch);
  }
}

// Calls body(index) for each row that this thread helps to compute. If a block holds one row at a time, all its threads
// run the same iterations.
template <int kThreads, class Body>
__device__ void for_rows(std::int64_t rows, Body&& body) {
  constexpr int kRows = kThreads < kLeastThreads ? kLeastThreads / kThreads : 1;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kThreads;
  for (std::int64_t index = first; index < rows; index += static_cast<std::int64_t>(gridDim.x) * kRows) body(index);
}

template <int kThreads>
__device__ std::int32_t key_of(int vector) {
  return 8 * (vector * kThreads + static_cast<std::int32_t>(threadIdx.x) % kThreads);
}

template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads < kLeastThreads ? kLeastThreads : kThreads)
    plain_softmax_rows(OutputParams params, Scores scores, bool write_lse) {
  __shared__ float scratch[32];
  for_rows<kThreads>(scores.rows.count, [&](std::int64_t n_row) {
    const std::int64_t index = scores.rows.first + n_row;
    const Row row = row_of(params, index);
    const T* const in = static_cast<const T*>(scores.scores) + n_row * scores.rows.stride;
    T* const out = static_cast<T*>(scores.probabilities) + n_row * scores.rows.stride;
    float value[kVectors][8];
    float highest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const std::int32_t j = key_of<kThreads>(n);
#pragma unroll
      for (int e = 0; e < 8; ++e) value[n][e] = -INFINITY;
      if (j >= row.hi || j + 8 <= row.lo) continue;
      const Vector8<T> vector(in + j);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (j + e < row.lo || j + e >= row.hi) continue;
        value[n][e] = vector[e];
        highest = larger(highest, value[n][e]);
      }
    }
    highest = over_row<kThreads>(highest, Larger(), scratch);
    const bool empty = highest == -INFINITY;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const std::int32_t j = key_of<kThreads>(n);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const bool used = j + e >= row.lo && j + e < row.hi && !empty;
        value[n][e] = used ? expf(value[n][e] - highest) : 0;
        sum += value[n][e];
      }
    }
    sum = over_row<kThreads>(sum, Plus(), scratch);
    const float factor = empty ? 0 : 1 / sum;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const std::int32_t j = key_of<kThreads>(n);
      if (j >= params.max_seqlen_k) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const bool used = j + e >= row.lo && j + e < row.hi && !empty;
        value[n][e] = used ? value[n][e] * factor : 0;
      }
      Vector8<T>(value[n]).store(out + j);
    }
    if (threadIdx.x % kThreads == 0 && write_lse && params.lse && (!params.packed || row.i < row.seqlen_q)) {
      const std::int64_t head = params.packed ? row.h * params.total_q + row.q_begin : index - row.i;
      params.lse[head + row.i] = empty ? -INFINITY : highest + logf(sum);
    }
  });
}

// Computes the gradient of q.k from that of the probabilities.
template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads < kLeastThreads ? kLeastThreads : kThreads)
    plain_softmax_backward_rows(OutputParams params, ScoreGradients scores) {
  __shared__ float scratch[32];
  for_rows<kThreads>(scores.rows.count, [&](std::int64_t n_row) {
    const Row row = row_of(params, scores.rows.first + n_row);
    const T* const probabilities = static_cast<const T*>(scores.probabilities) + n_row * scores.rows.stride;
    const T* const in = static_cast<const T*>(scores.d_probabilities) + n_row * scores.rows.stride;
    T* const out = static_cast<T*>(scores.d_scores) + n_row * scores.rows.stride;
    float weight[kVectors][8], gradient[kVectors][8];
    float delta = 0;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const std::int32_t j = key_of<kThreads>(n);
#pragma unroll
      for (int e = 0; e < 8; ++e) weight[n][e] = gradient[n][e] = 0;
      if (j >= row.hi || j + 8 <= row.lo) continue;
      const Vector8<T> of_weights(probabilities + j), of_gradients(in + j);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (j + e < row.lo || j + e >= row.hi) continue;
        weight[n][e] = of_weights[e];
        gradient[n][e] = of_gradients[e];
        delta += weight[n][e] * gradient[n][e];
      }
    }
    delta = over_row<kThreads>(delta, Plus(), scratch);
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const std::int32_t j = key_of<kThreads>(n);
      if (j >= params.max_seqlen_k) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const bool used = j + e >= row.lo && j + e < row.hi;
        gradient[n][e] = used ? rounded<T>(weight[n][e] * (gradient[n][e] - delta)) * params.scale : 0;
      }
      Vector8<T>(gradient[n]).store(out + j);
    }
  });
}

// If a row fits in registers, calls body(threads per row) and returns true.
template <class Body>
bool with_threads(std::int64_t keys, Body&& body) {
  constexpr std::int64_t kHeld = 8 * kVectors;
  if (keys <= 32 * kHeld) return body(std::integral_constant<int, 32>()), true;
  if (keys <= 128 * kHeld) return body(std::integral_constant<int, 128>()), true;
  if (keys <= 512 * kHeld) return body(std::integral_constant<int, 512>()), true;
  return false;
}

bool is_plain(const Params& params) {
  return params.softcap == 0 && !params.alibi_slopes && !params.bias.data && !params.mask.data && !params.sinks &&
         params.dropout_threshold == 0 && !params.first_keys.data;
}

unsigned blocks_of(std::int64_t rows, int threads) {
  const std::int64_t rows_per_block = threads < kLeastThreads ? kLeastThreads / threads : 1;
  return blocks_for((rows + rows_per_block - 1) / rows_per_block);
}

}  // namespace

bool plain_softmax(DType dtype, const Params& params, const Scores& scores, bool write_lse, void* stream) {
  if (!is_plain(params)) return false;
  const std::int64_t rows = scores.rows.count;
  const bool held = with_threads(params.max_seqlen_k, [&]<int kThreads>(std::integral_constant<int, kThreads>) {
    with_element(dtype, [&]<class T>(T*) {
      plain_softmax_rows<T, kThreads>
          <<<blocks_of(rows, kThreads), std::max(kThreads, kLeastThreads), 0, static_cast<cudaStream_t>(stream)>>>(
              params, scores, write_lse);
    });
  });
  if (held) cuda::check_launch("plain_softmax_rows");
  return held;
}

bool plain_softmax_backward(DType dtype, const Params& params, const ScoreGradients& scores, void* stream) {
  if (!is_plain(params) || scores.d_lse.data) return false;
  const std::int64_t rows = scores.rows.count;
  const bool held = with_threads(params.max_seqlen_k, [&]<int kThreads>(std::integral_constant<int, kThreads>) {
    with_element(dtype, [&]<class T>(T*) {
      plain_softmax_backward_rows<T, kThreads>
          <<<blocks_of(rows, kThreads), std::max(kThreads, kLeastThreads), 0, static_cast<cudaStream_t>(stream)>>>(
              params, scores);
    });
  });
  if (held) cuda::check_launch("plain_softmax_backward_rows");
  return held;
}

}  // namespace strobe::standard
