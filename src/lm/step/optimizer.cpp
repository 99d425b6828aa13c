// Implements Optimizer: updates parameters during the backward or after it.
#include "lm/step/optimizer.h"

#include <limits>

namespace strobe::lm {

Optimizer::Optimizer(Transformer& model, const ModelState& state, const Transfer& transfer,
                     const ops::ExecutionContext& execution, const GpuStream* stream)
    : model_(model), state_(state), transfer_(transfer), execution_(execution), stream_(stream) {
  if (stream_) side_.emplace();
}

void Optimizer::begin_step(const StepOptions& options) {
  const bool is_scaled = model_.options().dtype == DType::fp16;
  const double scale = is_scaled ? loss_scale.scale : 1;
  ops::Update& update = *transfer_.host().update();
  update = ops::update_of(options.adamw);
  update.loss_scale = static_cast<float>(scale);
  update.gradient_scale = static_cast<float>(1 / scale);
  update.most = static_cast<float>(options.clip);
  update.skip_infinite = is_scaled ? 1 : 0;
  update.norm = std::numeric_limits<double>::quiet_NaN();
  kind_ = options.clip > 0 || is_scaled ? Kind::limited : options.needs_norm ? Kind::with_norm : Kind::plain;
  model_.leave_room_in_backward(may_overlap());
}

bool Optimizer::may_overlap() const {
  return stream_ && kind_ != Kind::limited && state_.gradient_memory() != GradientMemory::over_copies;
}

// Updates parameters on the second stream. AdamW is memory-bound and runs on multiprocessors that are idle near the end
// of a matmul.
void Optimizer::update_overlapped(std::size_t first, std::size_t last) {
  ops::ExecutionContext execution = execution_;
  execution.stream = side_->fork(*stream_).handle();
  const ops::Trained part = state_.trained(first, last);
  ops::adamw(execution, transfer_.device().update(), {&part, 1});
}

void Optimizer::join() {
  side_->join(*stream_);
  if (kind_ != Kind::plain) limit_gradients();  // update.most is 0, so this only computes the norm
}

void Optimizer::settle() noexcept {
  if (side_) side_->settle();
}

void Optimizer::apply() {
  model_.begin_phase(Phase::update);
  if (kind_ != Kind::plain) limit_gradients();
  // AdamW reads values, gradients and moments, and writes values, moments and copies.
  const DType dtype = model_.options().dtype;
  const std::size_t bytes = 7 * sizeof(float) + (dtype == DType::fp32 ? 0 : size_of(dtype));
  const Recorded scope = model_.recorded_update("adamw", bytes);
  ops::adamw(execution_, transfer_.device().update(), state_.trained());
}

void Optimizer::limit_gradients() {
  const Recorded scope = model_.recorded_update("gradient norm", sizeof(float));
  ops::limit_gradients(execution_, {&state_.whole(), 1}, transfer_.device().update());
}

StepResult Optimizer::end_step(double loss) {
  const ops::Update& update = *transfer_.host().update();
  const bool skipped = update.skip != 0;
  if (model_.options().dtype == DType::fp16) skipped ? loss_scale.overflowed() : loss_scale.fine();
  return {.loss = loss, .gradient_norm = update.norm, .skipped = skipped, .skipped_in_all = loss_scale.skipped};
}

}  // namespace strobe::lm
