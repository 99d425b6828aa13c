// Memory of a GPU and pinned memory of the host, seen from host code: no CUDA header crosses here. In a build without
// CUDA (no_cuda.cpp) every request is refused with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace strobe {

class GpuStream;

// Bytes on the current GPU from gpu_allocator(), given back at the end of the scope. Without a stream, copies and fills
// are ordered on the default stream and have ended when the call returns. Failures throw Error, out_of_memory with the
// bytes asked for and free.
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

  // Writes the same 32-bit word over the whole buffer, whose size must be a multiple of 4: poison for tests.
  void fill(std::uint32_t word);
  void fill(std::uint32_t word, const GpuStream& stream);  // in order on the stream; returns before it is done

 private:
  void swap(GpuBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Bytes of the host that the GPU copies from and to by itself, while the host goes on. Costly to get (some tenths of a
// millisecond a MB) and taken from everybody, so: few, small, and kept.
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
