// Streams, events and graphs of a GPU for host code that sees no CUDA header: the bench and the tests. The library
// itself only ever gets a stream as an opaque handle. In a build without CUDA every request is refused.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace strobe {

class GpuEvent;

// Owns a stream that does not wait for the default one.
class GpuStream {
 public:
  // first: where blocks of threads wait for room on the GPU, this stream's go before those of ordinary ones.
  enum class Priority { ordinary, first };
  explicit GpuStream(Priority priority = Priority::ordinary);
  GpuStream(GpuStream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  GpuStream& operator=(GpuStream&&) = delete;
  ~GpuStream();

  void* handle() const { return handle_; }  // a cudaStream_t
  void synchronize() const;

  // What is put on this stream from now on starts after the event has passed.
  void wait_for(const GpuEvent& event) const;

  // Between any two of host and GPU memory; host memory may be reused once synchronize() has returned.
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* to, std::size_t bytes) const;  // zeros, GPU memory

 private:
  void* handle_ = nullptr;
};

// A moment on a stream.
class GpuEvent {
 public:
  GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  GpuEvent& operator=(GpuEvent&&) = delete;
  ~GpuEvent();

  void record(const GpuStream& stream);
  void synchronize() const;
  double seconds_since(const GpuEvent& earlier) const;  // both must have passed

 private:
  friend class GpuStream;
  void* handle_ = nullptr;
};

// The work that `record` puts on the stream, captured once and launched as often as wanted.
class GpuGraph {
 public:
  GpuGraph(const GpuStream& stream, const std::function<void()>& record);
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;
  ~GpuGraph();

  void launch(const GpuStream& stream) const;

 private:
  [[maybe_unused]] void* executable_ = nullptr;
};

}  // namespace strobe
