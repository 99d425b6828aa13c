// Implements ParallelModel, which combines a model with the gradient exchange of DataParallel.
#include "lm/data_parallel/parallel_model.h"

#include <algorithm>

#include "core/fail.h"
#include "core/printable.h"
#include "device/gpu_facts.h"

namespace strobe::lm {

namespace {

Replica replica_of(Model& model, const std::vector<std::string>& frozen) {
  if (model.optimizer_memory() != OptimizerMemory::outside) {
    fail(ErrorCode::invalid_argument,
         "data parallel: the model has optimizer state that is never updated; valid: OptimizerMemory::outside");
  }
  Replica replica{.values = model.placed_values(),
                  .gradients = model.placed_gradients(),
                  .count = parameter_count(model.shape()),
                  .tensors = {},
                  .execution = model.execution(),
                  .stream = model.stream()};
  for (const Parameter& parameter : model.parameters()) {
    const bool stays = std::find(frozen.begin(), frozen.end(), parameter.name) != frozen.end();
    replica.tensors.push_back({.first = parameter.first, .count = parameter.count(), .frozen = stays});
  }
  for (const std::string& name : frozen) {
    const auto has_name = [&](const Parameter& parameter) { return parameter.name == name; };
    if (std::none_of(model.parameters().begin(), model.parameters().end(), has_name)) {
      fail(ErrorCode::invalid_argument, "data parallel: frozen {}: not a parameter of the model; valid: {}, ...",
           printable_value(name), model.parameters()[0].name);
    }
  }
  return replica;
}

}  // namespace

std::int64_t batch_of_a_rank(std::int64_t batch, int ranks) {
  if (batch % ranks != 0) {
    fail(ErrorCode::invalid_argument, "a batch of {} sequences on {} ranks; valid: a multiple of the number of ranks",
         batch, ranks);
  }
  return batch / ranks;
}

int ranks_that_share(const comm::World& world, Device device) {
  if (device == Device::cpu) return std::max(1, world.local_size);
  const int gpus = gpu_count();
  return gpus == 0 ? 1 : comm::ranks_on_gpu_of(world, gpus);
}

ParallelModel::ParallelModel(Model& model, comm::Communicator& communicator, const ParallelModelOptions& options)
    : model_(model),
      communicator_(communicator),
      exchange_(communicator, replica_of(model, options.frozen), options.exchange) {
  model_.on_gradient_ready([this](std::size_t parameter) { exchange_.ready(parameter); });
}

ParallelModel::~ParallelModel() { model_.on_gradient_ready({}); }

void ParallelModel::begin() {
  exchange_.begin();
  model_.copy_values();
}

std::int64_t ParallelModel::first_token() const {
  return communicator_.rank() * model_.batch() * model_.shape().context;
}

double ParallelModel::loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) {
  const std::int64_t first = first_token();
  const std::int64_t own = std::clamp(counted - first, std::int64_t{0}, model_.batch() * model_.shape().context);
  const double sum = static_cast<double>(own) * model_.loss_of_first(tokens + first, targets + first, own);
  return communicator_.size() * exchange_.mean_of_ranks(sum) / static_cast<double>(counted);
}

StepResult ParallelModel::step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) {
  const std::int64_t first = first_token();
  const bool is_scaled = model_.dtype() == DType::fp16;
  LossScale loss_scale = model_.loss_scale();
  // Each of n ranks averages the loss over 1 / n of the batch. The gradients of a rank are therefore n times their
  // contribution to the whole batch's gradient. Dividing the loss scale by n makes fp16 gradients as large as in one
  // process, so they overflow in the same steps.
  const double scale = is_scaled ? loss_scale.scale / communicator_.size() : 1;
  ops::AdamW adamw = options.adamw;
  adamw.gradient_scale = 1 / scale;
  const double loss = model_.loss_and_lone_gradients(tokens + first, targets + first, static_cast<float>(scale));
  const ParallelUpdate update =
      exchange_.finish(adamw, options.clip, is_scaled ? Overflow::skipped : Overflow::applied);
  model_.copy_values();
  if (is_scaled) {
    update.skipped ? loss_scale.overflowed() : loss_scale.fine();
    model_.set_loss_scale(loss_scale);
  }
  return {.loss = exchange_.mean_of_ranks(loss),
          .gradient_norm = update.norm,
          .skipped = update.skipped,
          .skipped_in_all = loss_scale.skipped};
}

}  // namespace strobe::lm
