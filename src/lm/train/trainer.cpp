// Implements Trainer: reads batches, takes steps, detects divergence, saves and resumes checkpoints.
#include "lm/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace strobe::lm {
namespace {

// Clears the sign of a NaN, which depends on the processor and has no meaning.
double without_nan_sign(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

const char* fp16_advice(Precision precision) {
  return precision == Precision::fp16 ? " (fp16 overflows above 65504; --precision bf16 has the range of fp32)" : "";
}

}  // namespace

Trainer::Trainer(const Settings& settings, const TokenFile& data, int threads, Recompute recompute)
    : Trainer(settings, data,
              std::make_unique<SingleBackend>(settings, BackendOptions{.threads = threads, .recompute = recompute})) {}

Trainer::Trainer(const Settings& settings, const TokenFile& data, std::unique_ptr<TrainingBackend> backend)
    : settings_(settings),
      data_(data),
      order_(settings.seed, data.windows(settings.shape.context)),
      backend_(std::move(backend)),
      tokens_(static_cast<std::size_t>(settings.batch * settings.shape.context)),
      targets_(tokens_.size()) {}

void Trainer::begin() {
  progress_ = {};
  backend_->begin(settings_.seed, progress_.loss_scale);
}

void Trainer::resume(const Progress& progress, const Checkpoint* from) {
  progress_ = progress;
  backend_->begin(settings_.seed, progress_.loss_scale);  // clears what checkpoints do not contain, such as gradients
  for_each_chunk(settings_.shape, [&](State which, std::int64_t first, std::span<float> chunk) {
    if (from) std::copy_n(from->state(which).data() + first, chunk.size(), chunk.data());
    backend_->write_state(which, first, chunk);
  });
}

void Trainer::save(const std::string& path) {
  const StateChunk read = [&](State which, std::int64_t first, std::span<float> chunk) {
    backend_->read_state(which, first, chunk);
  };
  std::string bad;
  if (backend_->leads()) {
    try {
      write_checkpoint(path, read, settings_, progress_);
    } catch (const DivergedError& error) {
      bad = error.what();
    }
  } else {
    for_each_chunk(settings_.shape, read);  // a collective read: sends this rank's share to rank 0
  }
  if (backend_->agreed(bad.empty() ? 0 : 1) == 0) return;
  throw DivergedError(bad.empty() ? "rank 0 has read a state that is not finite" : bad);
}

void Trainer::read_batch() {
  const std::int64_t context = settings_.shape.context;
  for (std::int64_t b = 0; b < settings_.batch; ++b) {
    data_.read_window(order_.at(progress_.position + b), context, tokens_.data() + b * context,
                      targets_.data() + b * context);
  }
}

TrainStep Trainer::step() {
  read_batch();
  TrainStep taken{.step = progress_.step + 1, .rate = learning_rate(settings_, progress_.step + 1)};
  const StepOptions options{.adamw = {.rate = taken.rate,
                                      .beta1 = settings_.beta1,
                                      .beta2 = settings_.beta2,
                                      .eps = settings_.eps,
                                      .decay = settings_.decay,
                                      .step = taken.step - progress_.loss_scale.skipped},
                            .clip = settings_.clip};
  const bool can_lower_scale = settings_.precision == Precision::fp16 && progress_.loss_scale.scale > LossScale::kLeast;
  const StepResult result = backend_->step(tokens_.data(), targets_.data(), options);
  taken.loss = without_nan_sign(result.loss);
  taken.gradient_norm = without_nan_sign(result.gradient_norm);
  taken.skipped = result.skipped;
  taken.split = backend_->split();
  // The forward pass does not use the loss scale, so a lower scale does not help if the loss is not finite.
  const bool overflowed = std::isfinite(taken.loss) && can_lower_scale;
  if (!overflowed && !(std::isfinite(taken.loss) && std::isfinite(taken.gradient_norm))) {
    throw DivergedError(fmt::format("step {}: the loss is {} and the gradient's norm {}{}", taken.step, taken.loss,
                                    taken.gradient_norm, fp16_advice(settings_.precision)));
  }
  progress_.loss_scale = backend_->model().loss_scale();
  if (settings_.precision == Precision::fp16) taken.skipped_in_all = progress_.loss_scale.skipped;
  ++progress_.step;
  progress_.position += settings_.batch;
  return taken;
}

void Trainer::check_last_step() {
  read_batch();
  const double loss = without_nan_sign(
      backend_->loss_of_first(tokens_.data(), targets_.data(), static_cast<std::int64_t>(tokens_.size())));
  if (std::isfinite(loss)) return;
  throw DivergedError(fmt::format("after the last step ({}), the loss of the next batch is {}{}", progress_.step, loss,
                                  fp16_advice(settings_.precision)));
}

}  // namespace strobe::lm
