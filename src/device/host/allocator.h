// Counting allocator for host memory. The library's workspaces and the tensors of benchmarks come from here, so that
// memory beyond inputs and outputs can be measured.
#pragma once

#include <cstddef>
#include <utility>

#include "device/allocation_counter.h"

namespace strobe {

class CountingAllocator : public AllocationCounter {
 public:
  static constexpr std::size_t kAlignment = 64;

  // Returns memory that is aligned to kAlignment and not initialised, or null for 0 bytes. Throws Error(out_of_memory)
  // with the requested bytes. `tag` is the purpose of the memory, for an observer; it must be a string literal.
  void* allocate(std::size_t bytes, const char* tag = "");
  void free(void* pointer, std::size_t bytes) noexcept;
};

// Returns the allocator that the library uses.
CountingAllocator& host_allocator();

// Owns memory from a CountingAllocator.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes, CountingAllocator& allocator = host_allocator(), const char* tag = "")
      : allocator_(&allocator), data_(allocator.allocate(bytes, tag)), bytes_(bytes) {}
  Buffer(std::size_t bytes, const char* tag) : Buffer(bytes, host_allocator(), tag) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Buffer() {
    if (data_) allocator_->free(data_, bytes_);
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  CountingAllocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strobe
