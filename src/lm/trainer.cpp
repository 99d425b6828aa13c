#include "lm/trainer.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "device/device_info.h"

namespace strobe::lm {

namespace {

// Before anything is allocated: a system that promises more memory than it has would end the process later.
const Settings& checked(const Settings& settings, Recompute recompute) {
  check(settings.shape);
  if (settings.precision == Precision::tf32 && settings.device == Device::cpu) {
    fail(ErrorCode::unsupported, "--precision tf32: a GPU's products alone; valid on the CPU: fp32, bf16, fp16");
  }
  if (settings.device != Device::cpu) return settings;
  const DType dtype = dtype_of(settings.precision);
  const auto parameters = static_cast<std::size_t>(parameter_count(settings.shape));
  const std::size_t copies = dtype == DType::fp32 ? 0 : size_of(dtype);
  const ActivationPlan plan = activation_plan(settings.shape, settings.batch, dtype, recompute);
  const std::size_t needed = parameters * (4 * sizeof(float) + copies) +
                             gradients_at(plan, parameter_table(settings.shape), GradientMemory::shared);
  const std::size_t there = cpu_info().memory_bytes;
  if (there > 0 && needed > there) {
    fail(ErrorCode::out_of_memory,
         "lm train: parameters, their state and activations take {} bytes; this machine has {}", needed, there);
  }
  return settings;
}

}  // namespace

Trainer::Trainer(const Settings& settings, const TokenFile& data, int threads, Recompute recompute)
    : settings_(checked(settings, recompute)),
      data_(data),
      order_(settings.seed, data.windows(settings.shape.context)),
      model_(settings.shape, settings.batch, dtype_of(settings.precision),
             {.device = settings.device,
              .threads = threads,
              .deterministic = settings.deterministic,
              .tf32 = settings.precision == Precision::tf32},
             {.gradients = GradientMemory::shared, .recompute = recompute}),
      tokens_(static_cast<std::size_t>(settings.batch * settings.shape.context)),
      targets_(tokens_.size()) {}

void Trainer::begin() {
  model_.begin(settings_.seed);
  progress_ = {};
}

void Trainer::resume(const Checkpoint& from) {
  model_.begin(settings_.seed);  // what no checkpoint keeps, such as gradients
  for (const State which : {State::values, State::mean, State::variance}) model_.write_state(which, from.state(which));
  progress_ = from.progress();
  model_.set_loss_scale(progress_.loss_scale);
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
  const bool may_skip = settings_.precision == Precision::fp16 && progress_.loss_scale.scale > LossScale::kLeast;
  const StepResult result = model_.step(tokens_.data(), targets_.data(), options);
  taken.loss = result.loss;
  taken.gradient_norm = result.gradient_norm;
  taken.skipped = result.skipped;
  if (!may_skip && !(std::isfinite(taken.loss) && std::isfinite(taken.gradient_norm))) {
    fail(ErrorCode::runtime, "step {}: the loss is {} and the gradient's norm {}; a lower --lr or --clip may help",
         taken.step, taken.loss, taken.gradient_norm);
  }
  progress_.loss_scale = model_.loss_scale();
  ++progress_.step;
  progress_.position += settings_.batch;
  return taken;
}

double Trainer::validation_loss(const TokenFile& data, std::int64_t most_batches) {
  const std::int64_t context = settings_.shape.context, windows = data.windows(context);
  const std::int64_t apart = (windows + context - 1) / context;  // windows that share no token
  const std::int64_t batches = std::clamp(apart / settings_.batch, std::int64_t{1}, most_batches);
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t b = 0; b < settings_.batch; ++b) {  // data of less than one batch come round again
      data.read_window((batch * settings_.batch + b) % apart * context, context, tokens_.data() + b * context,
                       targets_.data() + b * context);
    }
    sum += model_.loss(tokens_.data(), targets_.data());
  }
  return sum / static_cast<double>(batches);
}

}  // namespace strobe::lm
