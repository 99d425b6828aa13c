// Reads any text as limits for `strobe compare --require`. The reader must reject it with a one-line error, or return
// requirements that judge() accepts. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include "report/limits.h"
#include "report/rows.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns the cells that the limits judge: two implementations on one problem, and a cell that failed.
inline const std::vector<report::Cell>& cells_to_judge() {
  static const std::vector<report::Cell> cells = report::cells_of(
      report::parse_results(row_text({}) + "\n" + row_text({.implementation = "peer", .forward = {0.02}}) + "\n" +
                                row_text({.seqlen_q = 256, .status = "oom"}),
                            "rows"));
  return cells;
}

// Returns true if the reader accepts the text.
inline bool fuzz_limits(const std::uint8_t* data, std::size_t bytes) {
  report::Limits limits;
  if (!is_accepted([&] { limits = report::parse_limits("fuzz", text_of(data, bytes)); })) return false;
  require(!limits.requirements.empty(), "limits have a requirement");
  for (const report::Requirement& one : limits.requirements) {
    require(!one.bounds.empty() && one.share > 0 && one.share <= 1, "a requirement has a bound and a share");
  }
  if (needs_comparison(limits)) return true;
  is_accepted([&] {
    const report::Judgement judgement = judge(limits, cells_to_judge(), nullptr, report::Estimate::median);
    require(judgement.missed <= judgement.limits, "the number of missed limits is at most the number of limits");
  });
  return true;
}

}  // namespace strobe::test
