// Implements KernelImplementation. prepare() allocates workspace and outputs, so the timed region allocates nothing.
#include "bench/kernel_implementation.h"

#include <unistd.h>

#include <cstring>

#include "bench/implementation.h"
#include "core/clock.h"
#include "measure/quiet.h"

namespace strobe::bench {
namespace {

Buffer poisoned(std::int64_t bytes) {
  Buffer buffer(static_cast<std::size_t>(bytes));
  if (bytes > 0) std::memset(buffer.data(), 0xff, static_cast<std::size_t>(bytes));  // NaN in all three types
  return buffer;
}

}  // namespace

std::optional<std::int64_t> KernelImplementation::predicted_bytes(const AttentionCase& one) {
  return held_bytes(kernel_, one);
}

void KernelImplementation::prepare(const AttentionCase& one, const Inputs& inputs) {
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
    dbias_ = poisoned(bytes.dbias);
    dsinks_ = poisoned(bytes.sinks);
  }
  workspace_ = Buffer(workspace_of(kernel_, one));
}

void KernelImplementation::release() {
  for (Buffer* buffer : {&o_, &lse_, &dq_, &dk_, &dv_, &dbias_, &dsinks_, &workspace_}) *buffer = Buffer();
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
            .dbias = dbias_.bytes() > 0 ? view_bhsd(dbias_.data(), DType::fp32, attention_.bias.shape) : View(),
            .dsinks = dsinks_.as<float>()},
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
          .lse = lse_.as<float>(),
          .dbias = view_bhsd<const void>(dbias_.data(), DType::fp32, attention_.bias.shape),
          .dsinks = view_bhsd<const void>(dsinks_.data(), DType::fp32, {1, 1, 1, case_.heads})};
}

std::optional<std::int64_t> KernelImplementation::metered_bytes() {
  return static_cast<std::int64_t>(host_allocator().statistics().peak);
}

std::optional<std::int64_t> KernelImplementation::saved_bytes() {
  for (Buffer* buffer : {&dq_, &dk_, &dv_, &dbias_, &dsinks_, &workspace_}) *buffer = Buffer();
  const std::int64_t d_o = tensor_bytes(case_).o;  // allocated by the caller
  return static_cast<std::int64_t>(host_allocator().statistics().current) - d_o;
}

void KernelImplementation::settle() { wait_until_quiet(getpid()); }

}  // namespace strobe::bench
