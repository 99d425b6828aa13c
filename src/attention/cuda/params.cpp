// Implements params.h: converts a validated Problem to the structs that kernels take by value.
#include "attention/cuda/params.h"

#include <algorithm>
#include <limits>

#include "attention/cuda/problem.h"
#include "core/philox.h"

namespace strobe::cuda {

namespace {

template <class Void>
Tensor tensor_of(const Problem& problem, const BasicView<Void>& view) {
  Tensor tensor;
  tensor.data = const_cast<void*>(static_cast<const void*>(view.data));
  tensor.batch = problem.packed ? 0 : view.stride[0];
  tensor.head = view.stride[1];
  tensor.row = view.stride[2];
  tensor.column = static_cast<std::int32_t>(view.stride[3]);
  tensor.vectors = in_vectors(view);
  return tensor;
}

// A bias keeps its batch stride in a packed batch, because it has one matrix per sequence.
template <class Void>
Tensor bias_of(const BasicView<Void>& view) {
  Tensor tensor;
  tensor.data = const_cast<void*>(static_cast<const void*>(view.data));
  tensor.batch = view.stride[0];
  tensor.head = view.stride[1];
  tensor.row = view.stride[2];
  tensor.vectors = in_vectors(view);
  return tensor;
}

Indices indices_of(const IndexView& view) { return {view.data, view.bits == 64}; }

std::int32_t side_of(std::int64_t side) {
  return static_cast<std::int32_t>(std::min<std::int64_t>(side, std::numeric_limits<std::int32_t>::max() / 2));
}

}  // namespace

SequenceParams sequence_params_of(const Problem& problem) {
  SequenceParams params;
  params.total_q = problem.total_q;
  params.total_k = problem.k.shape[2];
  params.lengths_q = indices_of(problem.lengths_q);
  params.lengths_k = indices_of(problem.lengths_k);
  params.cu_seqlens_q = indices_of(problem.cu_seqlens_q);
  params.cu_seqlens_k = indices_of(problem.cu_seqlens_k);
  params.batch = static_cast<std::int32_t>(problem.batch);
  params.heads_q = static_cast<std::int32_t>(problem.heads_q);
  params.heads_kv = static_cast<std::int32_t>(problem.heads_kv);
  params.group = static_cast<std::int32_t>(problem.group);
  params.max_seqlen_q = static_cast<std::int32_t>(problem.max_seqlen_q);
  params.max_seqlen_k = static_cast<std::int32_t>(problem.max_seqlen_k);
  params.d = static_cast<std::int32_t>(problem.d);
  params.dv_dim = static_cast<std::int32_t>(problem.dv);
  params.window_left = side_of(problem.window.left);
  params.window_right = problem.causal ? 0 : side_of(problem.window.right);
  params.scale = problem.scale;
  params.packed = problem.packed;
  params.bottom_right = problem.alignment == Alignment::bottom_right;
  return params;
}

namespace {

void fill(Params& params, const Problem& problem) {
  const bool backward = problem.pass == Pass::backward;
  static_cast<SequenceParams&>(params) = sequence_params_of(problem);
  params.o = backward ? tensor_of(problem, problem.o_in) : tensor_of(problem, problem.o);
  params.lse = backward ? const_cast<float*>(problem.lse_in) : problem.lse;
  params.sinks = problem.sinks;
  if (problem.has_bias) params.bias = bias_of(problem.bias);
  if (problem.has_mask) {
    const auto& stride = problem.mask.stride;
    params.mask = {static_cast<const unsigned char*>(problem.mask.data), stride[0], stride[1], stride[2], stride[3]};
  }
  params.first_keys = indices_of(problem.first_keys);
  params.alibi_slopes = problem.alibi_slopes;
  params.alibi_batch = problem.alibi_batch_stride;
  params.softcap = problem.softcap;
  params.bias_fp32 = problem.bias.dtype == DType::fp32;
  params.q = tensor_of(problem, problem.q);
  params.k = tensor_of(problem, problem.k);
  params.v = tensor_of(problem, problem.v);
  if (problem.dropout.p == 0) return;
  params.dropout_threshold = dropout_threshold(problem.dropout.p);
  params.dropout_scale = static_cast<float>(dropout_scale(params.dropout_threshold));
  auto k0 = static_cast<std::uint32_t>(problem.dropout.seed);
  auto k1 = static_cast<std::uint32_t>(problem.dropout.seed >> 32);
  for (auto& keys : params.philox_keys) {
    keys[0] = k0, keys[1] = k1;
    k0 += kPhiloxW0, k1 += kPhiloxW1;
  }
}

}  // namespace

Params params_of(const Problem& problem) {
  Params params;
  fill(params, problem);
  return params;
}

BackwardParams backward_params_of(const Problem& problem) {
  BackwardParams params;
  fill(params, problem);
  if (problem.pass == Pass::forward) return params;
  params.d_o = tensor_of(problem, problem.d_o);
  params.dq = tensor_of(problem, problem.dq);
  params.dk = tensor_of(problem, problem.dk);
  params.dv = tensor_of(problem, problem.dv_out);
  if (problem.d_lse) {
    const auto& stride = problem.d_lse_stride;
    params.d_lse.data = const_cast<float*>(problem.d_lse);
    params.d_lse.batch = problem.packed ? 0 : stride[0];
    params.d_lse.head = stride[1], params.d_lse.row = stride[2];
  }
  if (problem.wants_dbias) params.dbias = bias_of(problem.dbias);
  params.dsinks = problem.dsinks;
  return params;
}

}  // namespace strobe::cuda
