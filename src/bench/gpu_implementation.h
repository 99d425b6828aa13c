// Base class of the GPU implementations that run in this process: GpuKernel below and CudnnPeer define the timed call.
// It allocates tensors from the counting allocator, flushes the L2 cache before each measurement (with Cache::hot an
// untimed call follows the flush), and times calls with CUDA events.
#pragma once

#include <memory>

#include "bench/implementation.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"

namespace strobe::bench {

class GpuImplementation : public Implementation {
 public:
  void prepare(const AttentionCase& one, const Inputs& inputs) override;
  void release() override;
  double time(Region region) override;
  Results results() override;
  std::optional<std::int64_t> metered_bytes() override;
  std::optional<std::int64_t> saved_bytes() override;
  void settle() override {}  // no threads spin between calls

 protected:
  // Does the slow preparation of a case, such as building plans. Returns the workspace bytes of the pass that needs
  // more.
  virtual std::size_t plan(const AttentionCase& one) = 0;
  virtual bool writes_lse(const AttentionCase&) const { return true; }  // true if forward writes LSE
  virtual void prepared() {}                                            // called when all tensors exist

  // Both enqueue kernels on the stream and return without waiting.
  virtual void run_forward() = 0;
  virtual void run_backward() = 0;

  void* stream() const;  // a cudaStream_t

  AttentionCase case_;
  Attention attention_;  // inputs on the GPU
  GpuBuffer q_, k_, v_, bias_, slopes_, sinks_, lengths_;
  GpuBuffer d_o_, o_, lse_, dq_, dk_, dv_, dbias_, dsinks_, workspace_;

 private:
  struct Meter;  // stream, events and flush buffer

  std::shared_ptr<Meter> meter_;
  std::size_t held_before_ = 0;  // bytes allocated before the tensors of the case, including the flush buffer
  Buffer host_o_, host_lse_, host_dq_, host_dk_, host_dv_, host_dbias_, host_dsinks_;
};

// A GPU kernel of the library, called through the public API.
class GpuKernel : public GpuImplementation {
 public:
  explicit GpuKernel(std::string kernel) : kernel_(std::move(kernel)) {}

  std::string name() const override { return kernel_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const AttentionCase& one) override;

 protected:
  std::size_t plan(const AttentionCase& one) override;
  void prepared() override;
  void run_forward() override;
  void run_backward() override;

 private:
  std::string kernel_;
  std::string configuration_;
  Execution execution_;
};

}  // namespace strobe::bench
