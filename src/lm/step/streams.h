// Submits a step's work to a GPU: as a replayed graph, and on a second stream that runs concurrently with the main one.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/gpu_stream.h"

namespace strobe::lm {

// Repeated work as a CUDA graph. The first run is direct, so libraries choose and load their kernels. The second run is
// captured, later ones are replayed. Values that change between runs must be read from memory.
class Replay {
 public:
  // If `stream` is null, calls `work` every time, as on the host.
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

// A stream for work that the main stream does not wait for. Inside a capture, fork and join become edges of the graph.
class SideStream {
 public:
  // Work on the returned stream runs after all work that is on `main` now.
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

  // Waits for forked work that, after a failure, is never joined.
  void settle() noexcept {
    if (!std::exchange(is_pending_, false)) return;
    try {
      stream_.synchronize();
    } catch (...) {  // settle() runs after a failure; the caller throws the first error
    }
  }

 private:
  bool is_pending_ = false;
  GpuStream stream_;
  GpuEvent forked_, joined_;
};

}  // namespace strobe::lm
