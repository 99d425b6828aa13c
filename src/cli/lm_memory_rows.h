// Rows of `strobe lm memory`: one model in one precision, its forward pass and its training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/lm_bench_options.h"
#include "lm/memory/timeline.h"

namespace strobe::cli {

// One pass of a cell.
struct MemoryRow {
  LmBenchCell cell;           // its pass: forward or step
  std::size_t predicted = 0;  // bytes
  std::optional<lm::MemoryFigures> figures{};
  std::string error{};              // without figures: why it is out of memory
  std::optional<double> seconds{};  // fastest step, where recomputations are compared
  std::int64_t skipped = 0;         // fp16: timed steps that updated nothing
};

struct MemoryCell {
  MemoryRow forward, step;
};

const char* name_of_pass(const MemoryRow& row);
std::string title_of(const MemoryRow& row);  // "tiny, context 64, batch 4, bf16, step"

// Categories at the peak.
const lm::ByCategory& at_peak(const lm::MemoryTimeline& timeline);

}  // namespace strobe::cli
