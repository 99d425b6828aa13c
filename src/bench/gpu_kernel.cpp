// Calls strobe::forward and strobe::backward on a case's GPU tensors.
#include "bench/gpu_kernel.h"

#include "bench/verdict.h"

namespace strobe::bench {

std::optional<std::int64_t> GpuKernel::predicted_bytes(const Case& one) { return held_bytes(kernel_, one); }

std::size_t GpuKernel::plan(const Case& one) {
  const Pass shown = has_forward(one.passes) ? Pass::forward : Pass::backward;
  configuration_ = verdict_of(kernel_, one, shown).configuration;
  return workspace_of(kernel_, one);
}

void GpuKernel::prepared() {
  execution_ = execution_of(case_);
  execution_.kernel = kernel_;
  execution_.stream = stream();
  execution_.workspace = workspace_.data();
  execution_.workspace_bytes = workspace_.bytes();
}

void GpuKernel::run_forward() {
  forward(attention_, {.o = view_bhsd(o_.data(), case_.dtype, attention_.q.shape), .lse = lse_.as<float>()},
          execution_);
}

void GpuKernel::run_backward() {
  backward(attention_,
           {.o = view_bhsd<const void>(o_.data(), case_.dtype, attention_.q.shape),
            .lse = lse_.as<float>(),
            .d_o = view_bhsd<const void>(d_o_.data(), case_.dtype, attention_.q.shape)},
           {.dq = view_bhsd(dq_.data(), case_.dtype, attention_.q.shape),
            .dk = view_bhsd(dk_.data(), case_.dtype, attention_.k.shape),
            .dv = view_bhsd(dv_.data(), case_.dtype, attention_.v.shape),
            .dbias = dbias_.bytes() > 0 ? view_bhsd(dbias_.data(), DType::fp32, attention_.bias.shape) : View(),
            .dsinks = dsinks_.as<float>()},
           execution_);
}

}  // namespace strobe::bench
