// Flags of `strobe lm train`: settings that determine the result in one process (lm::Settings), run options such as the
// checkpoint interval (lm::RunOptions), and others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "cli/lm/ranks.h"
#include "cli/lm/shape_options.h"
#include "core/json.h"
#include "lm/models/choices.h"
#include "lm/train/run_options.h"
#include "lm/train/settings.h"

namespace strobe::cli {

inline constexpr const char* kNoValidation = "none";  // value of --val-data

struct TrainFlags {
  ShapeFlags shape;
  Given<lm::Settings> settings;  // without shape, device and data
  std::optional<Device> device;

  std::string data, out;
  std::string validation;            // path; empty: the resumed run's path, if any; kNoValidation: no validation
  std::string data_format = "auto";  // auto, text, tokens or tokens32
  bool resume = false;
  std::int64_t resume_step;                                                                 // default lm::kNewest
  std::optional<std::int64_t> checkpoint_every, keep, validation_every, validation_tokens;  // as lm::RunOptions
  std::int64_t sample_tokens = 128;
  std::optional<int> threads;
  lm::Recompute recompute = lm::Recompute::none;
  bool quick = false;
  ExchangeFlags exchange;
  bool verify = false;

  TrainFlags();
};

void add_train_options(OptionTable& table, TrainFlags& flags);

// Returns the device of a new run: a GPU if there is one, unless --device is given.
Device device_of(const TrainFlags& flags);

// Returns the values that must be equal on all ranks of a run: settings, data and gradient exchange.
Json facts_of(const TrainFlags& flags, const lm::DataIdentity& data);

// Returns the settings of a new run: the flags, and defaults for the others.
lm::Settings settings_from(const TrainFlags& flags, const lm::DataIdentity& data);

// Returns the settings of a resumed run: those of the checkpoint (`kept`). Throws Error(invalid_argument) if a flag or
// the data differs. --steps, --device and --threads may differ, with --resume=STEP also --lr, --lr-min and --clip. All
// changes except --threads are listed in `notes`.
lm::Settings settings_from(const TrainFlags& flags, const lm::DataIdentity& data, const lm::Settings& kept,
                           std::vector<std::string>& notes);

// Returns the run options: the flags, and the run's earlier values (`kept`) for flags that are not given. Throws
// Error(invalid_argument) if validation is configured without validation data.
lm::RunOptions run_options_from(const TrainFlags& flags, lm::RunOptions kept);

}  // namespace strobe::cli
