// A stream beside another, for work that may wait while the other's goes on. Also inside a capture, where fork and join
// become edges of the graph.
#pragma once

#include <utility>

#include "device/gpu_stream.h"

namespace strobe::lm {

class SideStream {
 public:
  // What is put on the result comes after everything that `main` has so far.
  const GpuStream& fork(const GpuStream& main) {
    forked_.record(main);
    stream_.wait_for(forked_);
    is_pending_ = true;
    return stream_;
  }

  // What is put on `main` from now on comes after everything that was put on this.
  void join(const GpuStream& main) {
    joined_.record(stream_);
    main.wait_for(joined_);
    is_pending_ = false;
  }

  // Waits for what was forked and, after a failure, will not be joined.
  void settle() noexcept {
    if (!std::exchange(is_pending_, false)) return;
    try {
      stream_.synchronize();
    } catch (...) {  // the failure before it is the one to tell
    }
  }

 private:
  bool is_pending_ = false;
  GpuStream stream_;
  GpuEvent forked_, joined_;
};

}  // namespace strobe::lm
