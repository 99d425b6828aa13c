// Nothing is allocated in the timed region: workspace and outputs are taken by prepare().
#include "bench/kernel_implementation.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "measure/clock.h"
#include "measure/quiet.h"

namespace strobe::bench {
namespace {

// The kernel's verdict on one pass; throws where it refuses.
Verdict verdict_of(const std::string& kernel, const Case& one, Pass pass) {
  const Execution execution{.threads = one.threads};
  for (Verdict& verdict : explain(attention_of(one, nullptr, nullptr, nullptr), pass, execution)) {
    if (verdict.kernel != kernel) continue;
    if (!verdict.refusal.empty()) fail(ErrorCode::unsupported, "{}: {}", kernel, verdict.refusal);
    return verdict;
  }
  fail(ErrorCode::unsupported, "{}: not built in", kernel);
}

std::size_t workspace_of(const std::string& kernel, const Case& one) {
  std::size_t bytes = verdict_of(kernel, one, Pass::forward).workspace_bytes;
  if (has_backward(one.passes)) bytes = std::max(bytes, verdict_of(kernel, one, Pass::backward).workspace_bytes);
  return bytes;
}

Buffer poisoned(std::int64_t bytes) {
  Buffer buffer(static_cast<std::size_t>(bytes));
  if (bytes > 0) std::memset(buffer.data(), 0xff, static_cast<std::size_t>(bytes));  // NaN in all three types
  return buffer;
}

}  // namespace

std::optional<std::int64_t> KernelImplementation::predicted_bytes(const Case& one) {
  const TensorBytes bytes = tensor_bytes(one);
  const auto workspace = static_cast<std::int64_t>(workspace_of(kernel_, one));
  const std::int64_t forward = bytes.inputs() + bytes.o + bytes.lse + workspace;
  return has_backward(one.passes) ? forward + bytes.inputs() + bytes.o : forward;
}

void KernelImplementation::prepare(const Case& one, const Inputs& inputs) {
  case_ = one;
  attention_ = inputs.attention;
  d_o_ = inputs.d_o_view;
  const Pass shown = has_forward(one.passes) ? Pass::forward : Pass::backward;
  configuration_ = verdict_of(kernel_, one, shown).configuration;
  const TensorBytes bytes = tensor_bytes(one);
  host_allocator().reset_peak();
  o_ = poisoned(bytes.o);
  lse_ = poisoned(bytes.lse);
  if (has_backward(one.passes)) {
    dq_ = poisoned(bytes.q);
    dk_ = poisoned(bytes.k);
    dv_ = poisoned(bytes.v);
  }
  workspace_ = Buffer(workspace_of(kernel_, one));
}

void KernelImplementation::release() {
  for (Buffer* buffer : {&o_, &lse_, &dq_, &dk_, &dv_, &workspace_}) *buffer = Buffer();
}

Execution KernelImplementation::execution() const {
  return {.kernel = kernel_,
          .threads = case_.threads,
          .workspace = workspace_.data(),
          .workspace_bytes = workspace_.bytes()};
}

void KernelImplementation::run_forward() {
  forward(attention_, {.o = view_bhsd(o_.data(), case_.dtype, attention_.q.shape), .lse = lse_.as<float>()},
          execution());
}

void KernelImplementation::run_backward() {
  const ConstView o = view_bhsd(static_cast<const void*>(o_.data()), case_.dtype, attention_.q.shape);
  backward(attention_, {.o = o, .lse = lse_.as<float>(), .d_o = d_o_},
           {.dq = view_bhsd(dq_.data(), case_.dtype, attention_.q.shape),
            .dk = view_bhsd(dk_.data(), case_.dtype, attention_.k.shape),
            .dv = view_bhsd(dv_.data(), case_.dtype, attention_.v.shape),
            .dbias = {},
            .dsinks = nullptr},
           execution());
}

double KernelImplementation::time(Region region) {
  const double begin = now_seconds();
  if (region != Region::backward) run_forward();
  if (region != Region::forward) run_backward();
  return now_seconds() - begin;
}

Results KernelImplementation::results() {
  const auto view = [&](const Buffer& buffer, const ConstView& like) -> ConstView {
    return view_bhsd(static_cast<const void*>(buffer.data()), case_.dtype, like.shape);
  };
  return {.o = view(o_, attention_.q),
          .dq = view(dq_, attention_.q),
          .dk = view(dk_, attention_.k),
          .dv = view(dv_, attention_.v),
          .lse = lse_.as<float>()};
}

std::optional<std::int64_t> KernelImplementation::metered_bytes() {
  return static_cast<std::int64_t>(host_allocator().statistics().peak);
}

void KernelImplementation::settle() { wait_until_quiet(getpid()); }

}  // namespace strobe::bench
