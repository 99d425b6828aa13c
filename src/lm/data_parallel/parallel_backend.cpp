// Implements ParallelBackend with ParallelModel.
#include "lm/data_parallel/parallel_backend.h"

#include <vector>

namespace strobe::lm {

namespace {

DataParallel::Average average_of(State which) {
  return which == State::mean ? DataParallel::Average::mean : DataParallel::Average::variance;
}

BackendOptions among(const comm::Communicator& communicator, Device device, BackendOptions options) {
  options.processes = ranks_that_share(communicator.world(), device);
  return options;
}

// Returns the bytes of AdamW's moments on one rank.
std::size_t state_bytes_of(const ModelShape& shape, const Strategy& strategy, int ranks) {
  const std::size_t all = 2 * float_bytes(parameter_count(shape));
  return strategy.updates == Updates::all ? all : all / static_cast<std::size_t>(ranks);
}

}  // namespace

ParallelBackend::ParallelBackend(comm::Communicator& communicator, const Settings& settings,
                                 const BackendOptions& options, const ParallelOptions& exchange)
    : communicator_(communicator),
      model_(training_model(settings, batch_of_a_rank(settings.batch, communicator.size()),
                            among(communicator, settings.device, options), OptimizerMemory::outside,
                            state_bytes_of(settings.shape, exchange.strategy, communicator.size()))),
      together_(model_, communicator, {.exchange = exchange}),
      watch_(model_.stream()) {
  model_.record(&watch_);
}

void ParallelBackend::begin(std::uint64_t seed, const LossScale& loss_scale) {
  model_.begin(seed);
  model_.set_loss_scale(loss_scale);
  together_.begin();
}

StepResult ParallelBackend::step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) {
  watch_.begin_step();
  const StepResult result = together_.step(tokens, targets, options);
  split_ = split_of(watch_, together_.exchange().record());
  return result;
}

double ParallelBackend::loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) {
  return together_.loss_of_first(tokens, targets, counted);
}

void ParallelBackend::read_state(State which, std::int64_t first, std::span<float> out) {
  if (which == State::values) return model_.read_state(which, out, first);  // every rank has all values
  together_.exchange().read_average(average_of(which), first, out);
}

void ParallelBackend::write_state(State which, std::int64_t first, std::span<float> in) {
  communicator_.broadcast(comm::elements(in));
  if (which == State::values) return model_.write_state(which, in, first);
  together_.exchange().write_average(average_of(which), first, in);
}

int ParallelBackend::agreed(int own) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(communicator_.size()));
  std::int64_t& mine = values[static_cast<std::size_t>(communicator_.rank())];
  mine = own;
  communicator_.all_gather(comm::elements(std::span(&mine, 1)), comm::elements(values));
  for (const std::int64_t value : values) {
    if (value != 0) return static_cast<int>(value);
  }
  return 0;
}

}  // namespace strobe::lm
