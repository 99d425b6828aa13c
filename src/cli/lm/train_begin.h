// How a run of `strobe lm train` begins: from flags, its folder and a checkpoint in it. Of several ranks the first one
// decides, and the others are told; they never look into the folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/lm/train_options.h"
#include "comm/communicator.h"
#include "lm/checkpoint.h"
#include "lm/checkpoint_folder.h"
#include "lm/settings.h"
#include "lm/token_file.h"
#include "lm/upkeep.h"

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
