// ParallelBackend is the training backend of one of several ranks. It has a model for the rank's sequences of every
// batch, and the rank's share of the optimizer state. `strobe lm train` on several ranks and verify.cpp use it.
#pragma once

#include "lm/data_parallel/parallel_model.h"
#include "lm/data_parallel/phase_watch.h"
#include "lm/train/training_backend.h"

namespace strobe::lm {

class ParallelBackend : public TrainingBackend {
 public:
  // All ranks use the same settings and options. The communicator must outlive this object. Throws
  // Error(invalid_argument) if the number of ranks does not divide the batch, and Error(out_of_memory).
  ParallelBackend(comm::Communicator& communicator, const Settings& settings, const BackendOptions& options,
                  const ParallelOptions& exchange);

  const Model& model() const override { return model_; }
  void begin(std::uint64_t seed, const LossScale& loss_scale) override;
  StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) override;
  double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) override;
  std::optional<StepSplit> split() const override { return split_; }
  void read_state(State which, std::int64_t first, std::span<float> out) override;
  void write_state(State which, std::int64_t first, std::span<float> in) override;
  bool leads() const override { return communicator_.rank() == 0; }
  int agreed(int own) override;

 private:
  comm::Communicator& communicator_;
  Model model_;
  ParallelModel together_;
  PhaseWatch watch_;
  std::optional<StepSplit> split_;
};

}  // namespace strobe::lm
