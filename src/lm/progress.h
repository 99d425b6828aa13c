// How far a training run has come: with the settings and the state of the model, all that a checkpoint holds.
#pragma once

#include <cstdint>

#include "core/json.h"
#include "lm/loss_scale.h"
#include "lm/settings.h"

namespace strobe::lm {

// Random numbers come from counters (Philox, keyed by the seed): the seed and these positions are the generator's whole
// state.
struct Progress {
  std::int64_t step = 0;      // steps taken
  std::int64_t position = 0;  // windows of the data that were read, through all epochs: step * batch
  LossScale loss_scale;       // changes in fp16 only

  bool operator==(const Progress&) const = default;
};

Json to_json(const LossScale& loss_scale);
Json to_json(const Progress& progress);

// Throws Error(invalid_argument) with the field, the value and the valid range where a run with these settings cannot
// have come there.
void check(const Progress& progress, const Settings& settings);

LossScale loss_scale_from(const Json& json);  // kinds of values only; check() has the ranges
// Checked. Throws Error(invalid_argument) for a missing key and a value of another kind, too.
Progress progress_from(const Json& json, const Settings& settings);

}  // namespace strobe::lm
