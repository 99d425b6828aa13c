// RunOptions has the options of a training run that do not affect the model: checkpoint schedule and validation. They
// are stored as run.json next to the checkpoints, and a resumed run uses them again. run.json also has the name of the
// `strobe launch` job and the settings. With the settings, a run that ended before its first checkpoint can be resumed.
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

struct RunOptions {
  std::int64_t checkpoint_every = 500, keep = 3;  // number of steps, 0: only at the end; number of files, 0: all
  std::string validation;                         // path as given by the user; empty: no validation
  std::int64_t validation_every = 0;              // in steps; 0: with each checkpoint
  std::int64_t validation_tokens = 131'072;       // maximum predicted tokens per validation; 0: the whole file
  std::string job;                     // `strobe launch` job that trains or last trained in the folder; empty: none
  std::optional<Settings> settings{};  // absent in files of older versions

  bool operator==(const RunOptions&) const = default;
};

Json to_json(const RunOptions& run_options);
RunOptions run_options_from(const Json& json);  // throws Error(invalid_argument) if malformed

// Returns the defaults if the file does not exist. Throws Error(invalid_argument) with the path and a remedy if it
// cannot be read or is malformed.
RunOptions read_run_options(const std::string& path);

// Replaces the file atomically. Throws Error if the write fails.
void write_run_options(const std::string& path, const RunOptions& run_options);

}  // namespace strobe::lm
