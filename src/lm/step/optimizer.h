// The update of a training step: clipping, AdamW, the loss scale of fp16, and updates that overlap with the backward.
#pragma once

#include <cstdint>
#include <optional>

#include "lm/state/model_state.h"
#include "lm/step/streams.h"
#include "lm/step/transfer.h"

namespace strobe::lm {

struct StepOptions {
  ops::AdamW adamw;        // the step sets its gradient_scale
  double clip = 0;         // largest norm of the gradient; 0: any
  bool needs_norm = true;  // false: computes the norm only to clip, and in fp16
};

struct StepResult {
  double loss = 0, gradient_norm = 0;  // norm: NaN if it was not computed
  bool skipped = false;                // fp16: a gradient overflowed, nothing was updated
  std::int64_t skipped_in_all = 0;
};

// Multiplies the loss of an fp16 model, so that small gradients do not become 0: halved if a gradient overflows,
// doubled after many steps without.
struct LossScale {
  double scale = 65536;
  std::int64_t fine_steps = 0;  // since the last change
  std::int64_t skipped = 0;     // steps whose gradient overflowed, in all

  static constexpr std::int64_t kPatience = 2000;
  static constexpr double kLeast = 1, kMost = 0x1p24;

  void fine() {
    if (++fine_steps < kPatience) return;
    fine_steps = 0;
    if (scale < kMost) scale *= 2;
  }
  void overflowed() {
    fine_steps = 0;
    ++skipped;
    if (scale > kLeast) scale /= 2;
  }
  bool operator==(const LossScale&) const = default;
};

class Optimizer {
 public:
  // Its model, state and transfer, which outlive it. stream: null on the CPU.
  Optimizer(Transformer& model, const ModelState& state, const Transfer& transfer, const ops::Place& place,
            const GpuStream* stream);

  void begin_step(const StepOptions& options);  // writes the numbers of the update for the device
  // What the update does depends on it: each is a graph of its own.
  enum class Kind { plain, with_norm, limited };  // limited: depends on the norm
  Kind kind() const { return kind_; }

  // Updates may run on a second stream during the backward, each as soon as the step does not read its parameters any
  // more. The bits are those of one update at the end.
  bool may_overlap() const;
  void update_beside(std::size_t first, std::size_t last);  // parameters [first, last)
  void join();                                              // ends the overlapped update
  void settle() noexcept;                                   // after a failure: waits for overlapped updates

  void apply();  // the update after a backward
  void update(const ops::AdamW& options) { ops::adamw(place_, options, state_.trained()); }
  double gradient_norm(double scale) const { return ops::gradient_norm(place_, {&state_.whole(), 1}, scale); }
  StepResult end_step(double loss);  // when the device is done: adapts the loss scale

  LossScale loss_scale;

 private:
  void limit_gradients();

  Transformer& model_;
  const ModelState& state_;
  const Transfer& transfer_;
  const ops::Place place_;
  const GpuStream* stream_;
  std::optional<SideStream> side_;  // CUDA
  Kind kind_ = Kind::plain;         // of the last step
};

}  // namespace strobe::lm
