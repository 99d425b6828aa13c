// Work on a GPU that is done again and again: directly the first time, when libraries choose and load their kernels,
// captured as a graph the second, replayed from then on. What changes between runs it reads from memory.
#pragma once

#include <functional>
#include <memory>

#include "device/gpu_stream.h"

namespace strobe::lm {

class Replay {
 public:
  // stream: null: work is called, as on the host.
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

}  // namespace strobe::lm
