// Progress is the position of a training run. A checkpoint stores it with the settings and the state of the model.
// Trainer updates it.
#pragma once

#include <cstdint>

#include "core/json.h"
#include "lm/step/optimizer.h"
#include "lm/train/settings.h"

namespace strobe::lm {

// Random numbers are counter-based (Philox, keyed by the seed), so the generator has no state other than the seed and
// these counters.
struct Progress {
  std::int64_t step = 0;      // steps taken
  std::int64_t position = 0;  // data windows read so far, over all epochs: step * batch
  LossScale loss_scale;       // changes in fp16 only

  bool operator==(const Progress&) const = default;
};

Json to_json(const LossScale& loss_scale);
Json to_json(const Progress& progress);

// Throws Error(invalid_argument) with the field, the value and the valid range if no run with these settings can reach
// this position.
void check(const Progress& progress, const Settings& settings);

LossScale loss_scale_from(const Json& json);  // checks types only; check() checks ranges
// Calls check(). Also throws Error(invalid_argument) for a missing key or a value of another type.
Progress progress_from(const Json& json, const Settings& settings);

}  // namespace strobe::lm
