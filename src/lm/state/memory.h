// Memory owns an allocation of the counting allocator of the host or the GPU.
#pragma once

#include <cstddef>
#include <cstring>

#include "device/gpu_allocator.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "device/host/allocator.h"
#include "strobe/attention.h"

namespace strobe::lm {

// Tags of a model's allocations.
inline constexpr const char *kValuesTag = "parameters", *kCopiesTag = "parameters, as matmuls read them",
                            *kMeanTag = "AdamW's mean", *kVarianceTag = "AdamW's variance",
                            *kArenaTag = "activations and gradients", *kWorkspaceTag = "workspace",
                            *kMatmulsTag = "workspace of matmuls", *kTransferTag = "tokens and losses",
                            *kRopeTag = "RoPE table";

// Returns the counter of the GPU's allocator; if `stream` is null, that of the host's.
inline AllocationCounter& allocator_of(const GpuStream* stream) {
  if (stream) return gpu_allocator();
  return host_allocator();
}

class Memory {
 public:
  // Copies and fills run on `stream`; null selects host memory. `tag` is reported to observers of the allocator.
  Memory(const GpuStream* stream, std::size_t bytes, const char* tag) : stream_(stream) {
    if (stream) {
      gpu_ = GpuBuffer(bytes, tag);
    } else {
      host_ = Buffer(bytes, tag);
    }
  }

  void* data() const { return stream_ ? gpu_.data() : host_.data(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  std::size_t bytes() const { return stream_ ? gpu_.bytes() : host_.bytes(); }

  void clear() const { clear(0, bytes()); }
  void clear(std::size_t first, std::size_t bytes) const {
    if (bytes == 0) return;
    if (stream_) {
      stream_->clear(gpu_.as<char>() + first, bytes);
    } else {
      std::memset(host_.as<char>() + first, 0, bytes);
    }
  }
  // clear() is in stream order on the GPU; write() and read() return when the copy is complete.
  void write(std::size_t at, const void* from, std::size_t bytes) const {
    if (!stream_) {
      std::memcpy(host_.as<char>() + at, from, bytes);
      return;
    }
    stream_->copy(gpu_.as<char>() + at, from, bytes);
    stream_->synchronize();
  }
  void read(std::size_t at, void* to, std::size_t bytes) const {
    if (!stream_) {
      std::memcpy(to, host_.as<char>() + at, bytes);
      return;
    }
    stream_->copy(to, gpu_.as<char>() + at, bytes);
    stream_->synchronize();
  }

 private:
  const GpuStream* stream_;
  Buffer host_;
  GpuBuffer gpu_;
};

}  // namespace strobe::lm
