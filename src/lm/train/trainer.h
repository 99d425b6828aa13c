// Trainer trains a model step by step. It has the training backend, the position in the data and the learning rates.
// `strobe lm train` uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lm/data/token_file.h"
#include "lm/train/checkpoint.h"
#include "lm/train/settings.h"
#include "lm/train/training_backend.h"
#include "lm/train/validation.h"

namespace strobe::lm {

struct TrainStep {
  std::int64_t step = 0;  // from 1
  double loss = 0, gradient_norm = 0, rate = 0;
  bool skipped = false;                          // fp16: the gradient overflowed, so nothing was updated
  std::optional<std::int64_t> skipped_in_all{};  // fp16: total skipped steps of the run
  std::optional<StepSplit> split{};              // with several ranks
};

class Trainer {
 public:
  // `data` must outlive this object and match settings.data. Throws Error(invalid_argument) for an invalid shape, and
  // Error(unsupported) if the device does not support the precision. Throws Error(out_of_memory) with the bytes needed
  // and free. `threads` and `recompute` do not change any bit of the results.
  Trainer(const Settings& settings, const TokenFile& data, int threads, Recompute recompute = Recompute::none);

  // `backend` must have been created from the same settings.
  Trainer(const Settings& settings, const TokenFile& data, std::unique_ptr<TrainingBackend> backend);

  // With several ranks, the functions below are collective: all ranks call them, and all throw a DivergedError.
  void begin();  // starts at step 0
  void resume(const Checkpoint& from) { resume(from.progress(), &from); }
  void resume(const Progress& progress, const Checkpoint* from);  // `from`: may be null except on rank 0

  // Throws DivergedError if the loss is not finite, or if the gradient is not finite and the fp16 loss scale cannot be
  // lowered. The state is then invalid.
  TrainStep step();

  // Throws DivergedError if the loss of the next batch is not finite. Call it after the last step, whose update no
  // later step would check. Changes nothing.
  void check_last_step();

  // Returns the loss on `data` (validation.h). Changes nothing.
  Validation validate(const TokenFile& data, std::int64_t budget) {
    return lm::validate(*backend_, settings_, data, budget);
  }

  // Rank 0 writes the file. Throws DivergedError on every rank, and writes no file, if a value is not finite.
  void save(const std::string& path);

  const Settings& settings() const { return settings_; }
  const Progress& progress() const { return progress_; }
  TrainingBackend& backend() const { return *backend_; }
  const Model& model() const { return backend_->model(); }
  bool done() const { return progress_.step >= settings_.steps; }

 private:
  void read_batch();

  Settings settings_;
  const TokenFile& data_;
  WindowOrder order_;
  std::unique_ptr<TrainingBackend> backend_;
  Progress progress_;
  std::vector<std::int32_t> tokens_, targets_;  // [batch, context]
};

}  // namespace strobe::lm
