// Softmax over materialised scores, one block per row: score options, mask, probabilities, dropout. The result of every
// step is rounded to the problem's type, as in a tensor library and in `standard` on the CPU.
#include "attention/standard/cuda/rows.h"
#include "attention/standard/cuda/score_rows.cuh"
#include "device/cuda/check.h"

namespace strobe::standard {

namespace {

// Converts scale * q.k to a logit: softcap, ALiBi, bias, boolean mask, in this order.
template <class T>
__device__ float logit_of(const Params& params, const Row& row, std::int32_t j, float s, T* tanh_row) {
  if (params.softcap != 0) {
    const T t = narrowed<T>(tanhf(s / params.softcap));
    if (tanh_row) tanh_row[j] = t;
    s = rounded<T>(widened(t) * params.softcap);
  }
  if (params.alibi_slopes) {
    const float slope = params.alibi_slopes[row.b * params.alibi_batch + row.h];
    s = rounded<T>(s - slope * static_cast<float>(abs(row.diagonal - j)));
  }
  if (params.bias.data) {
    const std::int64_t at = row.b * params.bias.batch + row.h * params.bias.head + row.i * params.bias.row + j;
    const float bias = params.bias_fp32 ? static_cast<const float*>(params.bias.data)[at]
                                        : widened(static_cast<const T*>(params.bias.data)[at]);
    s = rounded<T>(s + bias);
  }
  if (params.mask.data && !allows(params.mask, row, j)) return -INFINITY;
  return s;
}

template <class T>
__global__ void softmax_rows(Params params, Scores scores, bool write_lse) {
  __shared__ float scratch[32];
  const bool has_dropout = params.dropout_threshold != 0;
  for (std::int64_t n = blockIdx.x; n < scores.rows.count; n += gridDim.x) {
    const std::int64_t index = scores.rows.first + n;
    const std::int64_t offset = n * scores.rows.stride;
    const Row row = row_of(params, index, params.first_keys);
    const T* in = static_cast<const T*>(scores.scores) + offset;
    T* probabilities = static_cast<T*>(scores.probabilities) + offset;
    T* dropped = scores.dropped ? static_cast<T*>(scores.dropped) + offset : nullptr;
    T* tanh_row = scores.tanh ? static_cast<T*>(scores.tanh) + offset : nullptr;

    float highest = -INFINITY;
    bool allowed = !params.mask.data;  // true if the mask allows a key of this thread, later of the row
    for (std::int32_t j = first_key(row); j < row.hi; j += blockDim.x) {
      if (params.mask.data && allows(params.mask, row, j)) allowed = true;
      const float logit = logit_of<T>(params, row, j, widened(in[j]), tanh_row);
      probabilities[j] = narrowed<T>(logit);
      highest = larger(highest, logit);
    }
    highest = over_block(highest, Larger(), scratch);
    allowed = __syncthreads_or(allowed);
    const bool has_sink = params.sinks && row.lo < row.hi && allowed;
    const float sink = has_sink ? params.sinks[row.h] : -INFINITY;
    if (has_sink && sink > highest) highest = sink;

    const bool empty = highest == -INFINITY;  // every key is masked or has a bias of -inf
    float sum = 0;
    for (std::int32_t j = first_key(row); j < row.hi && !empty; j += blockDim.x) {
      sum += expf(widened(probabilities[j]) - highest);
    }
    sum = over_block(sum, Plus(), scratch);
    const float sink_part = has_sink && !empty ? expf(sink - highest) : 0;
    sum += sink_part;
    const float factor = empty ? 0 : 1 / sum;

    for (std::int32_t j = threadIdx.x; j < params.max_seqlen_k; j += blockDim.x) {
      const bool used = j >= row.lo && j < row.hi && !empty;
      const float weight = used ? rounded<T>(expf(widened(probabilities[j]) - highest) * factor) : 0;
      float kept = weight;
      if (has_dropout && used) kept = keeps(params, row, j) ? weight * params.dropout_scale : 0;
      probabilities[j] = narrowed<T>(dropped ? weight : kept);
      if (dropped) dropped[j] = narrowed<T>(kept);
    }
    if (threadIdx.x != 0) continue;
    if (scores.sink_weight) scores.sink_weight[index] = sink_part * factor;
    if (write_lse && params.lse && (!params.packed || row.i < row.seqlen_q)) {
      params.lse[lse_index(params, row)] = empty ? -INFINITY : highest + logf(sum);
    }
  }
}

}  // namespace

void softmax(DType dtype, const Params& params, const Scores& scores, bool write_lse, void* stream) {
  if (plain_softmax(dtype, params, scores, write_lse, stream)) return;
  with_element(dtype, [&]<class T>(T*) {
    softmax_rows<T>
        <<<blocks_for(scores.rows.count), threads_for(params.max_seqlen_k), 0, static_cast<cudaStream_t>(stream)>>>(
            params, scores, write_lse);
  });
  cuda::check_launch("softmax_rows");
}

}  // namespace strobe::standard
