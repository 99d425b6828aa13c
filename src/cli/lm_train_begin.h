// How a run of `strobe lm train` begins: from flags, its folder and a checkpoint in it. Of several ranks the first one
// decides, and the others are told; they never look into the folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/lm_train_options.h"
#include "comm/communicator.h"
#include "lm/data/token_file.h"
#include "lm/train/checkpoint.h"
#include "lm/train/checkpoint_folder.h"
#include "lm/train/settings.h"
#include "lm/train/upkeep.h"

namespace strobe::cli {

struct TrainBegin {
  lm::Settings settings;
  lm::Upkeep upkeep;
  std::optional<lm::Progress> progress;       // of the checkpoint that it goes on from; none: step 0
  std::unique_ptr<lm::TokenFile> validation;  // null: it is tested on nothing
  // Rank 0's alone.
  std::unique_ptr<lm::CheckpointFolder> folder;
  std::unique_ptr<lm::Checkpoint> checkpoint;
  std::vector<std::string> notes;
};

// ranks: null for one process. Throws Error for whatever cannot begin, on every rank; nothing is left behind then.
TrainBegin begin_training(const TrainFlags& flags, const lm::TokenFile& data, comm::Communicator* ranks);

}  // namespace strobe::cli
