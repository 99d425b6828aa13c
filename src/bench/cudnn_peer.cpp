// Implements CudnnPeer: validates a case, builds its cuDNN plans outside the timed region, and runs them on the
// benchmark's tensors.
#include "bench/cudnn_peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/cudnn_plan.h"
#include "core/fail.h"

namespace strobe::bench {
namespace {

CudnnTensor tensor_of(const ConstView& view) { return {view.shape, view.stride}; }

void check_supported(const AttentionCase& one) {
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
  if (one.batch == 0 || one.heads == 0 || one.seqlen_q == 0 || one.seqlen_k == 0) {
    fail(ErrorCode::unsupported, "cudnn: an empty tensor: {}", describe(one));
  }
}

// If there are as many keys as queries, both alignments are the same. top_left is then used, because cuDNN supports it
// for more problems.
CudnnMask mask_of(const AttentionCase& one) {
  if (!one.causal) return CudnnMask::none;
  return diagonal_offset(one) == 0 ? CudnnMask::causal_top_left : CudnnMask::causal_bottom_right;
}

}  // namespace

bool CudnnPeer::writes_lse(const AttentionCase& one) const { return has_backward(one.passes); }

std::optional<std::int64_t> CudnnPeer::predicted_bytes(const AttentionCase& one) {
  const auto workspace = static_cast<std::int64_t>(plan(one));
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t forward = bytes.forward() - (writes_lse(one) ? 0 : bytes.lse);
  return forward + (has_backward(one.passes) ? bytes.backward_extra() : 0) + workspace;
}

std::size_t CudnnPeer::plan(const AttentionCase& one) {
  const CudnnProblem problem = cudnn_problem(one);
  if (!plans_ || plans_->problem != problem) {
    plans_.reset();
    plans_.emplace(Plans{problem, CudnnPlan(problem, Pass::forward), std::nullopt});
    if (has_backward(one.passes)) plans_->backward.emplace(problem, Pass::backward);
    kernel_ = fmt::format("cudnn {}, forward {}", cudnn_version(), plans_->forward.engine());
    if (plans_->backward) kernel_ += ", backward " + plans_->backward->engine();
    configuration_ = fmt::format("{}, cudnn-frontend {}", kernel_, cudnn_frontend_version());
  }
  const std::size_t backward = plans_->backward ? plans_->backward->workspace_bytes() : 0;
  return std::max(plans_->forward.workspace_bytes(), backward);
}

void CudnnPeer::prepared() {
  pointers_ = {.q = q_.data(),
               .k = k_.data(),
               .v = v_.data(),
               .o = o_.data(),
               .lse = lse_.data(),
               .d_o = d_o_.data(),
               .dq = dq_.data(),
               .dk = dk_.data(),
               .dv = dv_.data()};
}

void CudnnPeer::run_forward() { plans_->forward.run(pointers_, workspace_.data(), stream()); }

void CudnnPeer::run_backward() { plans_->backward->run(pointers_, workspace_.data(), stream()); }

CudnnProblem cudnn_problem(const AttentionCase& one) {
  check_supported(one);
  tensor_bytes(one);  // throws on sizes that overflow
  const Attention attention = attention_of(one);
  const ConstView lse = view_bhsd<const void>(nullptr, DType::fp32, {one.batch, one.heads, one.seqlen_q, 1});
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
