// What every implementation on the GPU has in common: tensors from the counting allocator, times from events on a
// stream of its own, caches flushed before every call. The classes below and in cudnn_peer.h say what is called.
#pragma once

#include <memory>

#include "bench/implementation.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"

namespace strobe::bench {

class GpuImplementation : public Implementation {
 public:
  void prepare(const Case& one, const Inputs& inputs) override;
  void release() override;
  double time(Region region) override;
  Results results() override;
  std::optional<std::int64_t> metered_bytes() override;
  std::optional<std::int64_t> kept_bytes() override;
  void settle() override {}  // nothing runs between calls

 protected:
  // Bytes of workspace for whichever pass of the case needs more. What is slow about a case is done here.
  virtual std::size_t plan(const Case& one) = 0;
  virtual bool writes_lse(const Case&) const { return true; }  // after its forward
  virtual void prepared() {}                                   // every tensor below is there

  // Put their work on the stream and return.
  virtual void run_forward() = 0;
  virtual void run_backward() = 0;

  void* stream() const;  // a cudaStream_t

  Case case_;
  Attention attention_;  // the inputs on the GPU
  GpuBuffer q_, k_, v_, bias_, slopes_, sinks_, lengths_;
  GpuBuffer d_o_, o_, lse_, dq_, dk_, dv_, dbias_, dsinks_, workspace_;

 private:
  struct Meter;  // stream, events and what flushes the caches

  std::shared_ptr<Meter> meter_;
  std::size_t held_before_ = 0;  // bytes, by the meters
  Buffer host_o_, host_lse_, host_dq_, host_dk_, host_dv_, host_dbias_, host_dsinks_;
};

// One of the library's kernels on the GPU, through the public API.
class GpuKernel : public GpuImplementation {
 public:
  explicit GpuKernel(std::string kernel) : kernel_(std::move(kernel)) {}

  std::string name() const override { return kernel_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const Case& one) override;

 protected:
  std::size_t plan(const Case& one) override;
  void prepared() override;
  void run_forward() override;
  void run_backward() override;

 private:
  std::string kernel_;
  std::string configuration_;
  Execution execution_;
};

}  // namespace strobe::bench
