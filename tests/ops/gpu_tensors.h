// An execution context on the GPU, and tensors copied to it and back.
#pragma once

#include <vector>

#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "ops/execution_context.h"
#include "ops/tensors.h"

namespace strobe::ops {

class Gpu {
 public:
  explicit Gpu(bool deterministic = true, bool tf32 = false, std::size_t workspace_bytes = kWorkspaceBytes)
      : workspace_(workspace_bytes),
        execution_{.device = Device::cuda,
                   .stream = stream_.handle(),
                   .deterministic = deterministic,
                   .tf32 = tf32,
                   .workspace = workspace_.data(),
                   .workspace_bytes = workspace_.bytes()} {}
  const ExecutionContext& execution() const { return execution_; }
  const GpuStream& stream() const { return stream_; }

 private:
  GpuStream stream_;
  GpuBuffer workspace_;
  ExecutionContext execution_;
};

// `skip` elements precede the first one, so the tensor is aligned to one element only.
class OnGpu {
 public:
  OnGpu(const Gpu& gpu, const Values& values, std::size_t skip = 0)
      : OnGpu(gpu, values.data(), values.size() * size_of(values.dtype()), skip * size_of(values.dtype())) {}
  template <class T>
  OnGpu(const Gpu& gpu, const std::vector<T>& values, std::size_t skip = 0)
      : OnGpu(gpu, values.data(), values.size() * sizeof(T), skip * sizeof(T)) {}

  void* data() const { return buffer_.as<char>() + skip_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  void read(Values& values) const { read(values.data(), values.size() * size_of(values.dtype())); }
  template <class T>
  void read(std::vector<T>& values) const {
    read(values.data(), values.size() * sizeof(T));
  }

 private:
  OnGpu(const Gpu& gpu, const void* data, std::size_t bytes, std::size_t skip)
      : gpu_(gpu), buffer_(bytes + skip), skip_(skip) {
    gpu.stream().copy(this->data(), data, bytes);
    gpu.stream().synchronize();
  }
  void read(void* to, std::size_t bytes) const {
    gpu_.stream().copy(to, data(), bytes);
    gpu_.stream().synchronize();
  }

  const Gpu& gpu_;
  GpuBuffer buffer_;
  std::size_t skip_;
};

}  // namespace strobe::ops
