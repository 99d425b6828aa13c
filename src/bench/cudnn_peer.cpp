// Plans a case once, outside the timed region, and runs the plans on the bench's tensors.
#include "bench/cudnn_peer.h"

#include <fmt/format.h>

#include <algorithm>

namespace strobe::bench {

bool CudnnPeer::writes_lse(const Case& one) const { return has_backward(one.passes); }

std::optional<std::int64_t> CudnnPeer::predicted_bytes(const Case& one) {
  const auto workspace = static_cast<std::int64_t>(plan(one));
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t forward = bytes.forward() - (writes_lse(one) ? 0 : bytes.lse);
  return forward + (has_backward(one.passes) ? bytes.backward_extra() : 0) + workspace;
}

std::size_t CudnnPeer::plan(const Case& one) {
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

}  // namespace strobe::bench
