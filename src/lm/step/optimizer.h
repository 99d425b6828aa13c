// Optimizer runs the update of a training step: clipping, AdamW and the loss scale of fp16. On CUDA updates can overlap
// with the backward. Model uses it.
#pragma once

#include <cstdint>
#include <optional>

#include "lm/state/model_state.h"
#include "lm/step/streams.h"
#include "lm/step/transfer.h"

namespace strobe::lm {

struct StepOptions {
  ops::AdamW adamw;        // the step sets its gradient_scale
  double clip = 0;         // largest gradient norm; 0: no clipping
  bool needs_norm = true;  // false: computes the norm only for clipping and in fp16
};

struct StepResult {
  double loss = 0, gradient_norm = 0;  // gradient_norm: NaN if not computed
  bool skipped = false;                // fp16: a gradient overflowed, so nothing was updated
  std::int64_t skipped_in_all = 0;     // fp16: number of skipped steps so far
};

// Factor by which an fp16 model multiplies the loss so that small gradients do not underflow. It is halved if a
// gradient overflows and doubled after kPatience steps without overflow.
struct LossScale {
  double scale = 65536;
  std::int64_t fine_steps = 0;  // steps without overflow since the last change
  std::int64_t skipped = 0;     // total number of steps whose gradient overflowed

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
  // model, state and transfer must outlive this object. stream: null on the CPU.
  Optimizer(Transformer& model, const ModelState& state, const Transfer& transfer,
            const ops::ExecutionContext& execution, const GpuStream* stream);

  void begin_step(const StepOptions& options);  // sets the arguments of the update, which Transfer sends
  // Each kind of update is a separate graph.
  enum class Kind { plain, with_norm, limited };  // limited: the update depends on the norm (clipping, fp16)
  Kind kind() const { return kind_; }

  // Returns true if updates may run on a second stream during the backward, each as soon as the step no longer reads
  // its parameters. The result is bitwise equal to that of one update at the end.
  bool may_overlap() const;
  void update_overlapped(std::size_t first, std::size_t last);  // parameters [first, last)
  void join();                                                  // makes the main stream wait for the overlapped updates
  void settle() noexcept;                                       // waits for overlapped updates after a failure

  void apply();  // updates all parameters after a backward
  void update(const ops::AdamW& options) { ops::adamw(execution_, options, state_.trained()); }
  double gradient_norm(double scale) const { return ops::gradient_norm(execution_, {&state_.whole(), 1}, scale); }
  StepResult end_step(double loss);  // call it when the step is complete; adapts the loss scale

  LossScale loss_scale;

 private:
  void limit_gradients();

  Transformer& model_;
  const ModelState& state_;
  const Transfer& transfer_;
  const ops::ExecutionContext execution_;
  const GpuStream* stream_;
  std::optional<SideStream> side_;  // CUDA
  Kind kind_ = Kind::plain;         // kind of the last step's update
};

}  // namespace strobe::lm
