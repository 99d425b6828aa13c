// PhaseWatch splits the time of a training step into its phases. Training and `lm bench` use it.
#pragma once

#include <cstddef>
#include <optional>

#include "core/clock.h"
#include "device/gpu_stream.h"
#include "lm/data_parallel/data_parallel.h"
#include "lm/models/operation.h"
#include "lm/state/memory.h"
#include "lm/train/training_backend.h"

namespace strobe::lm {

// Records when each phase of a step began, and the bytes allocated at the end of backward. On CUDA the host runs ahead
// of the GPU, so GPU events measure the time since the start of the step.
class PhaseWatch : public Recorder {
 public:
  explicit PhaseWatch(const GpuStream* stream) : stream_(stream) {
    if (stream) {
      for (std::optional<GpuEvent>& event : events_) event.emplace();
    }
  }
  void begin(const Operation& operation) override {
    const bool first = !begun_ || phase_ != operation.phase;
    phase_ = operation.phase;
    begun_ = true;
    if (first) mark(static_cast<std::size_t>(phase_));
  }
  void end() override {
    if (phase_ == Phase::backward) held = allocator_of(stream_).statistics().current;
  }
  void begin_step() {
    begun_ = false;
    mark(kStep);
    step_began_ = now_seconds();
  }
  // Returns when a phase began, in seconds on the clock of core/clock.h. Valid after the step has finished.
  double began(Phase phase) const {
    const auto at = static_cast<std::size_t>(phase);
    return stream_ ? step_began_ + events_[at]->seconds_since(*events_[kStep]) : moments_[at];
  }
  double step_began() const { return step_began_; }

  std::size_t held = 0;  // bytes allocated at the end of backward

 private:
  void mark(std::size_t at) { stream_ ? events_[at]->record(*stream_) : void(moments_[at] = now_seconds()); }

  static constexpr std::size_t kStep = 3;  // index of the step's start, after the indices of Phase
  const GpuStream* stream_;
  Phase phase_ = Phase::forward;
  bool begun_ = false;
  double step_began_ = 0, moments_[kStep + 1] = {};
  std::optional<GpuEvent> events_[kStep + 1];
};

// Returns the durations of the step's parts. Valid after the step has finished.
inline StepSplit split_of(const PhaseWatch& watch, const StepRecord& record) {
  const double backward_began = watch.began(Phase::backward);
  return {.forward = backward_began - watch.step_began(),
          .backward = record.backward_ended - backward_began,
          .exposed = record.exposed,
          .hidden = record.hidden,
          .optimizer = record.optimizer,
          .calls = record.calls,
          .bytes = record.bytes};
}

}  // namespace strobe::lm
