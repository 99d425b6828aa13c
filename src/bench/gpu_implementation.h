// One of the library's kernels on the GPU, through the public API: tensors from the counting allocator, times from
// events on a stream of its own, caches flushed before every call.
#pragma once

#include <memory>

#include "bench/implementation.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"

namespace strobe::bench {

class GpuImplementation : public Implementation {
 public:
  explicit GpuImplementation(std::string kernel) : kernel_(std::move(kernel)) {}

  std::string name() const override { return kernel_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const Case& one) override;
  void prepare(const Case& one, const Inputs& inputs) override;
  void release() override;
  double time(Region region) override;
  Results results() override;
  std::optional<std::int64_t> metered_bytes() override;
  void settle() override {}  // nothing runs between calls

 private:
  struct Meter;  // stream, events and what flushes the caches
  void run_forward();
  void run_backward();

  std::string kernel_;
  std::string configuration_;
  Case case_;
  Attention attention_;
  Execution execution_;
  std::shared_ptr<Meter> meter_;
  std::size_t held_before_ = 0;  // bytes, by the meters
  GpuBuffer q_, k_, v_, bias_, slopes_, sinks_, lengths_;
  GpuBuffer d_o_, o_, lse_, dq_, dk_, dv_, dbias_, dsinks_, workspace_;
  Buffer host_o_, host_lse_, host_dq_, host_dk_, host_dv_, host_dbias_, host_dsinks_;
};

}  // namespace strobe::bench
