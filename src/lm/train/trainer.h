// Training step by step: the model, its position in the data and its schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lm/data/token_file.h"
#include "lm/train/checkpoint.h"
#include "lm/train/learner.h"
#include "lm/train/settings.h"
#include "lm/train/validation.h"

namespace strobe::lm {

struct TrainStep {
  std::int64_t step = 0;  // from 1
  double loss = 0, gradient_norm = 0, rate = 0;
  bool skipped = false;                          // fp16: the gradient overflowed; nothing was updated
  std::optional<std::int64_t> skipped_in_all{};  // fp16: total skipped steps of the run
  std::optional<StepSplit> split{};              // with several ranks
};

class Trainer {
 public:
  // `data` must outlive this object and match settings.data. Throws Error(invalid_argument) for settings that no model
  // supports, Error(unsupported) for a precision that the device lacks, and Error(out_of_memory) with the bytes.
  // `threads` and `recompute` do not change any result bit.
  Trainer(const Settings& settings, const TokenFile& data, int threads, Recompute recompute = Recompute::none);

  // learner: created from the same settings.
  Trainer(const Settings& settings, const TokenFile& data, std::unique_ptr<Learner> learner);

  // With several ranks, the functions below are collective: all ranks call them.
  void begin();  // at step 0
  void resume(const Checkpoint& from) { resume(from.progress(), &from); }
  void resume(const Progress& progress, const Checkpoint* from);  // from: rank 0's; null on the others

  // Throws DivergedError if the loss or the gradient is not finite, unless fp16 can still lower its loss scale. The
  // state is then invalid.
  TrainStep step();

  // Checks the state after the last step, which no later step would check: throws DivergedError if the loss of the next
  // batch is not finite. Changes nothing.
  void check_last_step();

  // Loss on `data` (validation.h); changes nothing.
  Validation validate(const TokenFile& data, std::int64_t budget) {
    return lm::validate(*learner_, settings_, data, budget);
  }

  void save(const std::string& path);  // written by rank 0

  const Settings& settings() const { return settings_; }
  const Progress& progress() const { return progress_; }
  Learner& learner() const { return *learner_; }
  const Model& model() const { return learner_->model(); }
  bool done() const { return progress_.step >= settings_.steps; }

 private:
  void read_batch();

  Settings settings_;
  const TokenFile& data_;
  WindowOrder order_;
  std::unique_ptr<Learner> learner_;
  Progress progress_;
  std::vector<std::int32_t> tokens_, targets_;  // [batch, context]
};

}  // namespace strobe::lm
