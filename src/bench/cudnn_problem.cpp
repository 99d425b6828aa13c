// Converts cases to cuDNN problems.
#include "bench/cudnn_problem.h"

#include <cmath>

#include "core/fail.h"

namespace strobe::bench {
namespace {

CudnnTensor tensor_of(const ConstView& view) { return {view.shape, view.stride}; }

void check_supported(const Case& one) {
  if (one.device != Device::cuda) {
    fail(ErrorCode::unsupported, "cudnn: device {}; valid: cuda (--device cuda)", name_of(one.device));
  }
  if (one.dtype == DType::fp32) fail(ErrorCode::unsupported, "cudnn: dtype fp32; valid: fp16, bf16");
  if (one.window.left >= 0 || one.window.right >= 0) {
    fail(ErrorCode::unsupported, "cudnn: this peer does not support windows: {}:{}", one.window.left, one.window.right);
  }
  if (one.options.any()) {
    fail(ErrorCode::unsupported, "cudnn: this peer does not support score options{}", describe_options(one.options));
  }
  if (one.deterministic) fail(ErrorCode::unsupported, "cudnn: this peer does not support --deterministic");
  if (one.batch == 0 || one.heads == 0 || one.seq_q == 0 || one.seq_k == 0) {
    fail(ErrorCode::unsupported, "cudnn: an empty tensor: {}", describe(one));
  }
}

// With as many keys as queries both alignments are the same; cuDNN supports top_left for more problems.
CudnnMask mask_of(const Case& one) {
  if (!one.causal) return CudnnMask::none;
  return diagonal_offset(one) == 0 ? CudnnMask::causal_top_left : CudnnMask::causal_bottom_right;
}

}  // namespace

CudnnProblem cudnn_problem(const Case& one) {
  check_supported(one);
  tensor_bytes(one);  // throws on sizes that overflow
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
