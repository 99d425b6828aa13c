// Reads any text as the metadata of a checkpoint, {"settings": ..., "progress": ...}. The reader must reject it with a
// one-line error, or return values within the ranges that training relies on. Called by libFuzzer (tests/fuzz) and by
// the test that replays its corpus.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/json.h"
#include "lm/train/checkpoint.h"
#include "lm/train/progress.h"
#include "lm/train/settings.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

inline void require_settings(const lm::Settings& settings) {
  require(lm::settings_from(lm::to_json(settings)) == settings, "settings are the same after writing and reading");
  require(settings.batch >= 1 && settings.steps >= 1 && settings.warmup >= 0, "counts of settings are in range");
  require(lm::checkpoint_bytes(settings.shape) > 0, "the size of a checkpoint is positive");
  for (const double value : {settings.rate, settings.least_rate, settings.beta1, settings.beta2, settings.eps,
                             settings.decay, settings.clip}) {
    require(std::isfinite(value) && value >= 0, "rates, decays and the clip norm are finite and not negative");
  }
  require(settings.beta1 < 1 && settings.beta2 < 1, "beta1 and beta2 are below 1");
  for (const std::int64_t step : {std::int64_t{1}, std::max(std::int64_t{1}, settings.warmup), settings.steps}) {
    require(std::isfinite(lm::learning_rate(settings, step)), "the learning rate is finite in every step");
  }
}

inline void require_progress(lm::Progress progress, const lm::Settings& settings) {
  require(lm::progress_from(lm::to_json(progress), settings) == progress,
          "progress is the same after writing and reading");
  require(progress.step >= 0 && progress.position >= 0, "steps and the data position are not negative");
  lm::LossScale& scale = progress.loss_scale;
  require(std::isfinite(scale.scale) && scale.scale > 0, "the loss scale is finite and above 0");
  require(scale.skipped >= 0 && scale.fine_steps >= 0, "counts of the loss scale are not negative");
  scale.fine();  // must not overflow
  scale.overflowed();
}

// Returns true if both settings and progress are accepted.
inline bool fuzz_settings(const std::uint8_t* data, std::size_t bytes) {
  Json metadata;
  if (!is_accepted([&] { metadata = Json::parse(text_of(data, bytes)); })) return false;
  lm::Settings settings;
  if (!is_accepted([&] { settings = lm::settings_from(metadata.at("settings")); })) return false;
  require_settings(settings);
  lm::Progress progress;
  const auto read_progress = [&] { progress = lm::progress_from(metadata.at("progress"), settings); };
  if (!is_accepted(read_progress)) return false;
  require_progress(progress, settings);
  return true;
}

}  // namespace strobe::test
