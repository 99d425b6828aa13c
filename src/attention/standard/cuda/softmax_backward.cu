// Gradient of softmax over materialised scores, one block per row, and the sums of dbias and dsinks. The result of
// every step is rounded to the problem's type, as in `standard` on the CPU.
#include "attention/standard/cuda/rows.h"
#include "attention/standard/cuda/score_rows.cuh"
#include "device/cuda/check.h"

namespace strobe::standard {

namespace {

// Returns the gradient of a probability from that of the probability after dropout. The result is 0 if the probability
// after dropout is 0, even if dropout kept it.
template <class T>
__device__ float through_dropout(const Params& params, const Row& row, std::int32_t j, float weight, float gradient) {
  if (params.dropout_threshold == 0) return gradient;
  const bool kept = keeps(params, row, j) && rounded<T>(weight * params.dropout_scale) != 0;
  return kept ? rounded<T>(gradient * params.dropout_scale) : 0;
}

template <class T>
__global__ void softmax_backward_rows(Params params, ScoreGradients scores) {
  __shared__ float scratch[32];
  for (std::int64_t n = blockIdx.x; n < scores.rows.count; n += gridDim.x) {
    const std::int64_t index = scores.rows.first + n;
    const std::int64_t offset = n * scores.rows.stride;
    const Row row = row_of(params, index, params.first_keys);
    const T* probabilities = static_cast<const T*>(scores.probabilities) + offset;
    const T* in = static_cast<const T*>(scores.d_probabilities) + offset;
    T* out = static_cast<T*>(scores.d_scores) + offset;
    float delta = 0;
    for (std::int32_t j = first_key(row); j < row.hi; j += blockDim.x) {
      const float weight = widened(probabilities[j]);
      delta += weight * through_dropout<T>(params, row, j, weight, widened(in[j]));
    }
    delta = over_block(delta, Plus(), scratch);
    if (scores.d_lse.data && row.lo < row.hi && params.lse[lse_index(params, row)] != -INFINITY) {
      const std::int64_t at = cuda::head_offset(scores.d_lse, row.b, row.h, row.q_begin + row.i);
      delta -= static_cast<const float*>(scores.d_lse.data)[at];
    }
    for (std::int32_t j = threadIdx.x; j < params.max_seqlen_k; j += blockDim.x) {
      float gradient = 0;
      if (j >= row.lo && j < row.hi) {
        const float weight = widened(probabilities[j]);
        gradient = weight * (through_dropout<T>(params, row, j, weight, widened(in[j])) - delta);
      }
      out[j] = narrowed<T>(gradient);
    }
    if (threadIdx.x == 0 && scores.sink_weight) scores.sink_weight[index] *= -delta;
  }
}

template <class T>
__global__ void options_backward_rows(Params params, ScoreGradients scores) {
  for (std::int64_t n = blockIdx.x; n < scores.rows.count; n += gridDim.x) {
    const std::int64_t offset = n * scores.rows.stride;
    const Row row = row_of(params, scores.rows.first + n, params.first_keys);
    T* gradients = static_cast<T*>(scores.d_scores) + offset;
    const T* tanh_row = scores.tanh ? static_cast<const T*>(scores.tanh) + offset : nullptr;
    for (std::int32_t j = first_key(row); j < row.hi; j += blockDim.x) {
      float gradient = widened(gradients[j]);
      if (tanh_row) {
        const float t = widened(tanh_row[j]);
        gradient = rounded<T>(gradient * (1 - t * t));
      }
      gradients[j] = narrowed<T>(gradient * params.scale);
    }
  }
}

constexpr int kColumns = 32;  // dbias columns per block
constexpr int kLanes = 32;    // rows of scores summed in parallel

// Block (x, y) computes kColumns adjacent elements of each of the rows y, y + gridDim.y, ... of dbias. An element is
// the sum of d_scores over all scores that share it.
template <class T>
__global__ void sum_dbias_columns(BackwardParams params, ScoreGradients scores, BiasShape shape) {
  __shared__ float parts[kLanes][kColumns + 1];
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t elements = std::int64_t{shape.batch} * shape.heads * shape.rows;
  // Numbers of sequences, heads and rows that share one element of dbias.
  const std::int64_t batches = shape.batch == 1 ? params.batch : 1;
  const std::int64_t heads = shape.heads == 1 ? params.heads_q : 1;
  const std::int64_t rows = shape.rows == 1 ? params.max_seqlen_q : 1;
  for (std::int64_t element = blockIdx.y; element < elements; element += gridDim.y) {
    const std::int64_t i0 = element % shape.rows;
    const std::int64_t h0 = element / shape.rows % shape.heads;
    const std::int64_t b0 = element / shape.rows / shape.heads;
    float sum = 0;
    for (std::int64_t n = threadIdx.y; n < batches * heads * rows && j < params.max_seqlen_k; n += kLanes) {
      const std::int64_t i = i0 + n % rows;
      const std::int64_t h = h0 + n / rows % heads;
      const std::int64_t b = b0 + n / rows / heads;
      const std::int64_t index = (b * params.heads_q + h) * params.max_seqlen_q + i;
      sum += widened(static_cast<const T*>(scores.d_scores)[index * scores.rows.stride + j]);
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && j < params.max_seqlen_k) {
      for (int lane = 1; lane < kLanes; ++lane) sum += parts[lane][threadIdx.x];
      const std::int64_t at = b0 * params.dbias.batch + h0 * params.dbias.head + i0 * params.dbias.row + j;
      static_cast<float*>(params.dbias.data)[at] = sum;
    }
    __syncthreads();
  }
}

// Computes dsinks by summing the rows' contributions, with one block per head.
__global__ void sum_dsinks_heads(BackwardParams params, const float* parts) {
  __shared__ float scratch[32];
  for (std::int64_t h = blockIdx.x; h < params.heads_q; h += gridDim.x) {
    float sum = 0;
    for (std::int64_t n = threadIdx.x; n < std::int64_t{params.batch} * params.max_seqlen_q; n += blockDim.x) {
      const std::int64_t b = n / params.max_seqlen_q;
      sum += parts[(b * params.heads_q + h) * params.max_seqlen_q + n % params.max_seqlen_q];
    }
    sum = over_block(sum, Plus(), scratch);
    if (threadIdx.x == 0) params.dsinks[h] = sum;
  }
}

}  // namespace

void softmax_backward(DType dtype, const Params& params, const ScoreGradients& scores, void* stream) {
  with_element(dtype, [&]<class T>(T*) {
    softmax_backward_rows<T>
        <<<blocks_for(scores.rows.count), threads_for(params.max_seqlen_k), 0, static_cast<cudaStream_t>(stream)>>>(
            params, scores);
  });
  cuda::check_launch("softmax_backward_rows");
}

void options_backward(DType dtype, const Params& params, const ScoreGradients& scores, void* stream) {
  with_element(dtype, [&]<class T>(T*) {
    options_backward_rows<T>
        <<<blocks_for(scores.rows.count), threads_for(params.max_seqlen_k), 0, static_cast<cudaStream_t>(stream)>>>(
            params, scores);
  });
  cuda::check_launch("options_backward_rows");
}

void sum_dbias(DType dtype, const BackwardParams& params, const ScoreGradients& scores, const BiasShape& shape,
               void* stream) {
  const std::int64_t elements = std::int64_t{shape.batch} * shape.heads * shape.rows;
  if (elements == 0 || params.max_seqlen_k == 0) return;
  const dim3 blocks(static_cast<unsigned>((params.max_seqlen_k + kColumns - 1) / kColumns),
                    static_cast<unsigned>(elements < 65535 ? elements : 65535));
  with_element(dtype, [&]<class T>(T*) {
    sum_dbias_columns<T>
        <<<blocks, dim3(kColumns, kLanes), 0, static_cast<cudaStream_t>(stream)>>>(params, scores, shape);
  });
  cuda::check_launch("sum_dbias_columns");
}

void sum_dsinks(const BackwardParams& params, const float* parts, void* stream) {
  sum_dsinks_heads<<<blocks_for(params.heads_q), 256, 0, static_cast<cudaStream_t>(stream)>>>(params, parts);
  cuda::check_launch("sum_dsinks_heads");
}

}  // namespace strobe::standard
