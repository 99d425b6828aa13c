// Reads any text as CSV output of ncu. The reader must reject it with a one-line error, or return counters that are
// null or numbers. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>

#include "core/json.h"
#include "report/ncu_csv.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns true if the reader accepts the text.
inline bool fuzz_ncu_csv(const std::uint8_t* data, std::size_t bytes) {
  Json read;
  if (!is_accepted([&] { read = report::read_ncu_csv(text_of(data, bytes)); })) return false;
  require(read.at("launches").as_integer() >= 1, "a table has a launch");
  const Json& values = read.at("counters");
  require(values.size() == report::counters().size(), "every counter has an entry");
  for (const report::Counter& counter : report::counters()) {
    const Json& value = values.at(counter.key);
    require(value.is_null() || value.is_number(), "a counter is null or a number");
  }
  require(is_printable(read.dump()), "counters are written as one line");
  return true;
}

}  // namespace strobe::test
