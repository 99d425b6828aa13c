// Replay submits a step's work to a GPU as a CUDA graph. SideStream is a second stream, concurrent with the main one.
// Model and Optimizer use them.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/gpu_stream.h"

namespace strobe::lm {

// Runs the same work repeatedly as a CUDA graph. The first run launches kernels directly, so that libraries can choose
// and load their kernels before the capture. The second run captures a graph; this and later runs launch it. Values
// that change between runs must be in memory that the kernels read, because a graph repeats its kernel arguments.
class Replay {
 public:
  // If `stream` is null, calls `work` every time.
  void run(const GpuStream* stream, const std::function<void()>& work) {
    if (!stream || !ran_) {
      work();
      ran_ = true;
      return;
    }
    if (!graph_) graph_ = std::make_unique<GpuGraph>(*stream, work);
    graph_->launch(*stream);
  }

 private:
  bool ran_ = false;
  std::unique_ptr<GpuGraph> graph_;
};

// A stream that runs concurrently with the main stream between fork() and join(). During a capture, fork() and
// join() become edges of the graph.
class SideStream {
 public:
  // Returns the stream. Later work on it runs after all work that is on `main` now.
  const GpuStream& fork(const GpuStream& main) {
    forked_.record(main);
    stream_.wait_for(forked_);
    is_pending_ = true;
    return stream_;
  }

  // Later work on `main` runs after all work that is on this stream now.
  void join(const GpuStream& main) {
    joined_.record(stream_);
    main.wait_for(joined_);
    is_pending_ = false;
  }

  // Waits for forked work that is never joined because of a failure.
  void settle() noexcept {
    if (!std::exchange(is_pending_, false)) return;
    try {
      stream_.synchronize();
    } catch (...) {  // the caller throws the first error
    }
  }

 private:
  bool is_pending_ = false;
  GpuStream stream_;
  GpuEvent forked_, joined_;
};

}  // namespace strobe::lm
