// GPU memory and pinned host memory for host code without CUDA headers. In a build without CUDA (no_cuda.cpp) the
// functions throw Error(unsupported).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace strobe {

class GpuStream;

// Owns memory on the current GPU from gpu_allocator(). Without a stream, copies and fills run on the default stream and
// are complete when the call returns. Throws Error on failure; if memory is exhausted, Error(out_of_memory) with the
// requested and the free bytes.
class GpuBuffer {
 public:
  GpuBuffer() = default;
  explicit GpuBuffer(std::size_t bytes, const char* tag = "");
  GpuBuffer(GpuBuffer&& other) noexcept { swap(other); }
  GpuBuffer& operator=(GpuBuffer&& other) noexcept {
    GpuBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~GpuBuffer();

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

  void copy_from_host(const void* source, std::size_t bytes);
  void copy_to_host(void* destination, std::size_t bytes) const;

  // Fills the whole buffer, whose size must be a multiple of 4, with one 32-bit word. Tests poison memory with it.
  void fill(std::uint32_t word);
  void fill(std::uint32_t word, const GpuStream& stream);  // asynchronous, in stream order

 private:
  void swap(GpuBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Pinned host memory for asynchronous copies. Allocation is slow (some tenths of a millisecond per MB) and reduces the
// system's pageable memory. Callers should allocate few, small buffers and reuse them.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  ~PinnedBuffer();

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strobe
