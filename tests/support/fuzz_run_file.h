// Reads any text as run.json. The reader must reject it with a one-line error, or the value must be the same after
// writing and reading. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>

#include "core/json.h"
#include "lm/train/run_options.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns true if the reader accepts the text.
inline bool fuzz_run_file(const std::uint8_t* data, std::size_t bytes) {
  lm::RunOptions run_options;
  if (!is_accepted([&] { run_options = lm::run_options_from(Json::parse(text_of(data, bytes))); })) return false;
  require(run_options.checkpoint_every >= 0 && run_options.keep >= 0, "intervals and counts are not negative");
  require(run_options.validation_every >= 0 && run_options.validation_tokens >= 0,
          "validation intervals and budgets are not negative");
  require(lm::run_options_from(Json::parse(lm::to_json(run_options).dump())) == run_options,
          "run.json is the same after writing and reading");
  return true;
}

}  // namespace strobe::test
