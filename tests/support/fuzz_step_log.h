// Opens any bytes as steps.jsonl. The reader must reject them with a one-line error and leave the file unchanged, or
// truncate the file to its leading complete rows. Called by libFuzzer (tests/fuzz) and by the test that replays its
// corpus.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "core/json.h"
#include "lm/train/step_log.h"
#include "support/fuzz_rules.h"
#include "support/scratch.h"

namespace strobe::test {

inline void require_rows_up_to(const std::string& log, std::int64_t last) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    require(Json::parse(line).at("step").as_integer() <= last,
            "remaining rows belong to steps up to the one that resumes");
  }
}

// data[0] is the step after which training resumes, the other bytes are the log. Returns true if the log is accepted.
inline bool fuzz_step_log(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return false;
  const std::int64_t last = data[0];
  const std::string before(text_of(data + 1, bytes - 1));
  const Scratch folder;
  const std::string path = folder.path() / "steps.jsonl";
  std::ofstream(path, std::ios::binary) << before;
  const bool accepted = is_accepted([&] { const lm::StepLog log(path, last); });
  const std::string after = folder.read("steps.jsonl");
  if (!accepted) {
    require(after == before, "a rejected log is unchanged");
    return false;
  }
  require(before.starts_with(after), "a log is truncated only at its end");
  require(after.empty() || after.ends_with('\n'), "only whole rows remain");
  require_rows_up_to(after, last);
  return true;
}

}  // namespace strobe::test
