// Cases to cuDNN's terms.
#include "bench/cudnn_problem.h"

#include <cmath>

#include "core/fail.h"

namespace strobe::bench {
namespace {

CudnnTensor tensor_of(const ConstView& view) { return {view.shape, view.stride}; }

void refuse_what_is_not_served(const Case& one) {
  if (one.device != Device::cuda) {
    fail(ErrorCode::unsupported, "cudnn: device {}; it runs on a GPU alone, --device cuda", name_of(one.device));
  }
  if (one.dtype == DType::fp32) fail(ErrorCode::unsupported, "cudnn: dtype fp32; valid: fp16, bf16");
  if (one.window.left >= 0 || one.window.right >= 0) {
    fail(ErrorCode::unsupported, "cudnn: the peer is not asked for windows: {}:{}", one.window.left, one.window.right);
  }
  if (one.options.any()) {
    fail(ErrorCode::unsupported, "cudnn: the peer is not asked for score options{}", describe_options(one.options));
  }
  if (one.deterministic) fail(ErrorCode::unsupported, "cudnn: the peer is not asked to repeat bit by bit");
  if (one.batch == 0 || one.heads == 0 || one.seq_q == 0 || one.seq_k == 0) {
    fail(ErrorCode::unsupported, "cudnn: an empty tensor: {}", describe(one));
  }
}

// Where there are as many keys as queries both alignments are the same, and the first is what cuDNN serves more of.
CudnnMask mask_of(const Case& one) {
  if (!one.causal) return CudnnMask::none;
  return diagonal_offset(one) == 0 ? CudnnMask::causal_top_left : CudnnMask::causal_bottom_right;
}

}  // namespace

CudnnProblem cudnn_problem(const Case& one) {
  refuse_what_is_not_served(one);
  tensor_bytes(one);  // sizes that overflow are refused here
  const Attention attention = attention_of(one);
  const ConstView lse = view_bhsd<const void>(nullptr, DType::fp32, {one.batch, one.heads, one.seq_q, 1});
  return {.dtype = one.dtype,
          .q = tensor_of(attention.q),
          .k = tensor_of(attention.k),
          .v = tensor_of(attention.v),
          .o = tensor_of(attention.q),
          .lse = tensor_of(lse),
          .scale = 1 / std::sqrt(static_cast<float>(one.head_dim)),
          .mask = mask_of(one),
          .statistics = has_backward(one.passes)};
}

}  // namespace strobe::bench
