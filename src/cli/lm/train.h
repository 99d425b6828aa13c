// The three parts of `strobe lm train`: beginning a run, the training loop, and --verify.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/lm/train_options.h"
#include "comm/communicator.h"
#include "lm/data/token_file.h"
#include "lm/train/checkpoint.h"
#include "lm/train/checkpoint_folder.h"
#include "lm/train/run_options.h"
#include "lm/train/settings.h"
#include "lm/train/step_log.h"
#include "lm/train/trainer.h"

namespace strobe::cli {

struct TrainBegin {
  lm::Settings settings;
  lm::RunOptions run_options;
  std::optional<lm::Progress> progress;       // stored in the checkpoint to resume from; nullopt: start at step 0
  std::unique_ptr<lm::TokenFile> validation;  // null: no validation
  // The members below are set only on rank 0.
  std::unique_ptr<lm::CheckpointFolder> folder;
  std::unique_ptr<lm::Checkpoint> checkpoint;
  std::vector<std::string> notes;
};

// Opens or creates what a new or resumed run needs: settings, folder, checkpoint and validation data. `ranks` is null
// for one process. Throws Error on every rank if training cannot begin; no new file is then left behind.
TrainBegin begin_training(const TrainFlags& flags, const lm::TokenFile& data, comm::Communicator* ranks);

// Returns ", 3 skipped": the number of fp16 steps whose gradient overflowed. Returns "" in other precisions.
std::string skipped_text(const lm::Trainer& trainer);

// Trains from the current step to the last one, or until a signal arrives.
class TrainRun {
 public:
  // The caller keeps ownership of all arguments. `folder` is null on ranks other than 0, which neither write nor print.
  // `validation` is null if there is none. `ceiling` is the FLOP/s at which the MFU is 1.
  TrainRun(lm::Trainer& trainer, lm::CheckpointFolder* folder, const lm::RunOptions& run_options,
           const lm::TokenFile* validation, std::optional<double> ceiling);

  // Returns the signal that ended the run; 0: all steps are done. Throws Error(runtime) if the run diverges. The error
  // names the newest checkpoint that is known to be good and how to resume from it; later checkpoints are renamed.
  int go();

 private:
  int run_steps();
  void take_step();
  void save();
  void remove_old_checkpoints();
  void validate();
  int stop(int signal);
  void print_step(const lm::TrainStep& step, double seconds) const;
  void warn_if_loss_explodes(const lm::TrainStep& step);
  std::string way_back() const;

  lm::Trainer& trainer_;
  lm::CheckpointFolder* folder_;
  const lm::RunOptions& run_options_;
  const lm::TokenFile* validation_;
  std::optional<double> ceiling_;
  std::optional<lm::StepLog> log_;  // nullopt if there is no folder
  std::int64_t first_;              // first step of this process
  std::int64_t saved_;              // step of the newest checkpoint
  // The last step with a finite loss and gradient. A checkpoint of an earlier step is known to be good, because a step
  // with a finite loss was computed from its parameters.
  std::int64_t finite_step_;
  bool newest_is_unproven_ = false;  // the newest checkpoint is not known to be good yet
  bool warned_ = false;              // the warning about an exploding loss is printed
  double start_;
};

// Runs `lm train --verify`. Call it on every rank; rank 0 prints. Returns the exit code: 1 if a bound is exceeded.
int run_lm_verify(const TrainFlags& flags);

}  // namespace strobe::cli
