// Implements GPU timing. Each timed call is enqueued behind an L2 flush, so the GPU does not wait for the host during
// the call and starts with a cold cache. With Cache::hot an untimed call follows the flush.
#include "bench/gpu_implementation.h"

#include <algorithm>

#include "bench/implementation.h"
#include "device/device_info.h"
#include "device/gpu_allocator.h"

namespace strobe::bench {
namespace {

constexpr std::uint32_t kNan = 0x7fc07fc0u;  // NaN in every type

GpuBuffer uploaded(const Buffer& from) {
  GpuBuffer buffer(from.bytes());
  buffer.copy_from_host(from.data(), from.bytes());
  return buffer;
}

GpuBuffer poisoned_on_gpu(std::int64_t bytes) {
  GpuBuffer buffer(static_cast<std::size_t>((bytes + 3) / 4 * 4));
  buffer.fill(kNan);
  return buffer;
}

std::size_t flush_bytes() {
  std::size_t largest = 0;
  for (const GpuInfo& gpu : gpu_inventory().gpus) largest = std::max(largest, gpu.l2_bytes);
  return std::max(4 * largest, std::size_t{64} << 20);
}

}  // namespace

struct GpuImplementation::Meter {
  GpuStream stream;
  GpuEvent begin, end;
  GpuBuffer flushed{flush_bytes()};
};

void* GpuImplementation::stream() const { return meter_->stream.handle(); }

void GpuImplementation::prepare(const AttentionCase& one, const Inputs& inputs) {
  case_ = one;
  if (!meter_) meter_ = std::make_shared<Meter>();
  const std::size_t workspace_bytes = plan(one);
  gpu_allocator().reset_peak();
  held_before_ = gpu_allocator().statistics().current;
  q_ = uploaded(inputs.q);
  k_ = uploaded(inputs.k);
  v_ = uploaded(inputs.v);
  bias_ = uploaded(inputs.bias);
  slopes_ = uploaded(inputs.slopes);
  sinks_ = uploaded(inputs.sinks);
  lengths_ = uploaded(inputs.lengths);
  attention_ = attention_of(one,
                            {.q = q_.data(),
                             .k = k_.data(),
                             .v = v_.data(),
                             .bias = bias_.data(),
                             .slopes = slopes_.as<float>(),
                             .sinks = sinks_.as<float>(),
                             .lengths = lengths_.as<std::int32_t>()},
                            inputs.attention.dropout.seed);
  const TensorBytes bytes = tensor_bytes(one);
  o_ = poisoned_on_gpu(bytes.o);
  if (writes_lse(one)) lse_ = poisoned_on_gpu(bytes.lse);
  if (has_backward(one.passes)) {
    d_o_ = uploaded(inputs.d_o);
    dq_ = poisoned_on_gpu(bytes.q);
    dk_ = poisoned_on_gpu(bytes.k);
    dv_ = poisoned_on_gpu(bytes.v);
    dbias_ = poisoned_on_gpu(bytes.dbias);
    dsinks_ = poisoned_on_gpu(bytes.sinks);
  }
  workspace_ = GpuBuffer(workspace_bytes);
  prepared();
}

void GpuImplementation::release() {
  for (GpuBuffer* buffer : {&q_, &k_, &v_, &bias_, &slopes_, &sinks_, &lengths_, &d_o_, &o_, &lse_, &dq_, &dk_, &dv_,
                            &dbias_, &dsinks_, &workspace_})
    *buffer = GpuBuffer();
  for (Buffer* buffer : {&host_o_, &host_lse_, &host_dq_, &host_dk_, &host_dv_, &host_dbias_, &host_dsinks_})
    *buffer = Buffer();
}

double GpuImplementation::time(Region region) {
  Meter& meter = *meter_;
  const auto call = [&] {
    if (region != Region::backward) run_forward();
    if (region != Region::forward) run_backward();
  };
  meter.flushed.fill(1, meter.stream);
  if (case_.cache == Cache::hot) call();
  meter.begin.record(meter.stream);
  call();
  meter.end.record(meter.stream);
  meter.end.synchronize();
  return meter.end.seconds_since(meter.begin);
}

Results GpuImplementation::results() {
  const auto download = [](const GpuBuffer& from, Buffer& to) {
    to = Buffer(from.bytes());
    from.copy_to_host(to.data(), from.bytes());
    return static_cast<const void*>(to.data());
  };
  const auto view = [&](const GpuBuffer& from, Buffer& to, const ConstView& like) -> ConstView {
    return view_bhsd(download(from, to), case_.dtype, like.shape);
  };
  return {.o = view(o_, host_o_, attention_.q),
          .dq = view(dq_, host_dq_, attention_.q),
          .dk = view(dk_, host_dk_, attention_.k),
          .dv = view(dv_, host_dv_, attention_.v),
          .lse = static_cast<const float*>(download(lse_, host_lse_)),
          .dbias = view_bhsd(download(dbias_, host_dbias_), DType::fp32, attention_.bias.shape),
          .dsinks = view_bhsd(download(dsinks_, host_dsinks_), DType::fp32, {1, 1, 1, case_.heads})};
}

std::optional<std::int64_t> GpuImplementation::metered_bytes() {
  return static_cast<std::int64_t>(gpu_allocator().statistics().peak - held_before_);
}

std::optional<std::int64_t> GpuImplementation::saved_bytes() {
  for (GpuBuffer* buffer : {&d_o_, &dq_, &dk_, &dv_, &dbias_, &dsinks_, &workspace_}) *buffer = GpuBuffer();
  return static_cast<std::int64_t>(gpu_allocator().statistics().current - held_before_);
}

std::optional<std::int64_t> GpuKernel::predicted_bytes(const AttentionCase& one) { return held_bytes(kernel_, one); }

std::size_t GpuKernel::plan(const AttentionCase& one) {
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
