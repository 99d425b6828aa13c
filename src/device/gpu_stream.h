// CUDA streams, events and graphs for host code without CUDA headers, such as benchmarks, training and tests. The
// attention library itself only receives a stream as an opaque handle. In a build without CUDA the functions throw.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace strobe {

class GpuEvent;

// Owns a non-blocking stream (no implicit synchronisation with the default stream).
class GpuStream {
 public:
  // With `first`, pending thread blocks of this stream are scheduled before those of ordinary streams.
  enum class Priority { ordinary, first };
  explicit GpuStream(Priority priority = Priority::ordinary);
  GpuStream(GpuStream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  GpuStream& operator=(GpuStream&&) = delete;
  ~GpuStream();

  void* handle() const { return handle_; }  // a cudaStream_t
  void synchronize() const;

  // Makes later work on this stream wait for the event.
  void wait_for(const GpuEvent& event) const;

  // Copies between host and GPU memory in any direction, in stream order. Host memory may be reused after
  // synchronize().
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* to, std::size_t bytes) const;  // sets GPU memory to zero, in stream order

 private:
  void* handle_ = nullptr;
};

// A CUDA event.
class GpuEvent {
 public:
  GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  GpuEvent& operator=(GpuEvent&&) = delete;
  ~GpuEvent();

  void record(const GpuStream& stream);
  void synchronize() const;
  double seconds_since(const GpuEvent& earlier) const;  // both events must have completed

 private:
  friend class GpuStream;
  void* handle_ = nullptr;
};

// A CUDA graph: captures the work that `record` puts on the stream once, and launches it any number of times.
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
