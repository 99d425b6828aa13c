// The tables of `strobe lm memory`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/lm/bench_options.h"
#include "lm/memory/timeline.h"
#include "report/memory_map.h"

namespace strobe::cli {

// One pass of a cell.
struct MemoryRow {
  LmBenchCell cell;           // its pass: forward or step
  std::size_t predicted = 0;  // bytes
  std::optional<lm::MemoryFigures> figures{};
  std::string error{};              // why it ran out of memory, if there are no figures
  std::optional<double> seconds{};  // fastest step, if recomputation modes are compared
  std::int64_t skipped = 0;         // fp16: timed steps that skipped the update
};

struct MemoryCell {
  MemoryRow forward, step;
};

// Peaks of the forward pass and of the step, counted and predicted: one row per cell. At most 80 columns without
// --recompute and with one batch.
std::string peak_table(const std::vector<MemoryCell>& cells);

// Each peak by category, and the largest tensors of each pass.
std::string memory_details(const std::vector<MemoryCell>& cells);

// Savings and cost of recomputation: peak, activations saved for the backward and time, each relative to `none`.
std::string recompute_table(const std::vector<MemoryCell>& cells);

const char* name_of_pass(const MemoryRow& row);
std::string title_of(const MemoryRow& row);  // "tiny, context 64, batch 4, bf16, step"

// Categories at the peak.
const lm::ByCategory& at_peak(const lm::MemoryTimeline& timeline);

// One row per pass with every allocation, tensor and time; then the table of peaks, one row per cell.
std::string memory_document(const std::vector<MemoryCell>& cells);

report::MemoryMap memory_map(const MemoryRow& row);  // the row must have figures

}  // namespace strobe::cli
