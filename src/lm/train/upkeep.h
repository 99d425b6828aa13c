// What a training run leaves on its way and is tested on, in run.json beside its checkpoints: a run that goes on goes
// on with it. No bit of the model depends on it, so that checkpoints do not hold it. Beside that, whose run it is, and
// its settings, for one that ended before its first checkpoint.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/json.h"
#include "lm/train/settings.h"

namespace strobe::lm {

inline constexpr IntegerRange kCheckpointEveryRange{"checkpoint_every", 0, kMostSteps},
    kKeepRange{"keep", 0, kMostSteps}, kValidationEveryRange{"val_every", 0, kMostSteps},
    kValidationTokensRange{"val_tokens", 0, std::numeric_limits<std::int64_t>::max()};

struct Upkeep {
  std::int64_t checkpoint_every = 500, keep = 3;  // steps, 0: the last alone; newest checkpoints that stay, 0: all
  std::string validation;                         // a path as it was given; empty: no tests
  std::int64_t validation_every = 0;              // steps; 0: with each checkpoint
  std::int64_t validation_tokens = 131'072;       // predicted tokens per validation, at most; 0: all of the file
  std::string job;                     // of `strobe launch` that trains in the folder, or did last; empty: none
  std::optional<Settings> settings{};  // none in files from before they were kept

  bool operator==(const Upkeep&) const = default;
};

Json to_json(const Upkeep& upkeep);
Upkeep upkeep_from(const Json& json);  // throws Error(invalid_argument) for anything else

// The defaults where there is no such file. Throws Error(invalid_argument) with the path and what to do where it cannot
// be read, or holds anything else.
Upkeep read_upkeep(const std::string& path);

// Whole or not at all. Throws Error where the disk refuses.
void write_upkeep(const std::string& path, const Upkeep& upkeep);

}  // namespace strobe::lm
