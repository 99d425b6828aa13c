// The steps of `strobe lm train`: a line each, tests and checkpoints on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lm/checkpoint_folder.h"
#include "lm/step_log.h"
#include "lm/trainer.h"
#include "lm/upkeep.h"

namespace strobe::cli {

// ", 3 skipped": steps of an fp16 run whose gradient overflowed, in all; "" in other precisions.
std::string skipped_text(const lm::Trainer& trainer);

// A run from where it stands to its end, or to a signal.
class TrainRun {
 public:
  // All of it stays the caller's. folder: null on a rank that follows rank 0: it takes part, and neither writes nor
  // prints. validation: null: no tests. ceiling: FLOP/s of which MFU is a share.
  TrainRun(lm::Trainer& trainer, lm::CheckpointFolder* folder, const lm::Upkeep& upkeep,
           const lm::TokenFile* validation, std::optional<double> ceiling);

  int go();  // the signal that ended it; 0: it is done

 private:
  void save();
  void test();
  int stop(int signal);
  void tell(const lm::TrainStep& step, double seconds) const;

  lm::Trainer& trainer_;
  lm::CheckpointFolder* folder_;
  const lm::Upkeep& upkeep_;
  const lm::TokenFile* validation_;
  std::optional<double> ceiling_;
  std::optional<lm::StepLog> log_;  // where there is a folder
  std::int64_t first_;              // step from which this process went on
  std::int64_t saved_;              // step of the newest checkpoint
  double start_;
};

}  // namespace strobe::cli
