// Formats the results of `strobe lm memory` as tables, JSON and a memory map.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/lm/bench_options.h"
#include "lm/memory/timeline.h"
#include "report/memory_map.h"

namespace strobe::cli {

// One pass of a cell (bench_options.h).
struct MemoryRow {
  LmBenchCell cell;           // its `pass` is forward or step
  std::size_t predicted = 0;  // bytes
  std::optional<lm::MemoryFigures> figures{};
  std::string error{};              // why it ran out of memory, if there are no figures
  std::optional<double> seconds{};  // fastest step, if recomputation modes are compared
  std::int64_t skipped = 0;         // fp16: timed steps that skipped the update
};

struct MemoryCell {
  MemoryRow forward, step;
};

// Returns the counted and predicted peaks of the forward pass and of the step, one row per cell. Lines have at most 80
// characters if all cells have the same batch and recomputation.
std::string peak_table(const std::vector<MemoryCell>& cells, std::span<const Json> table);

// Returns each peak by category, and the largest tensors of each pass.
std::string memory_details(const std::vector<MemoryCell>& cells, std::span<const Json> rows);

// Returns the savings and cost of recomputation: peak, activations saved for backward and time, each relative to
// `none`.
std::string recompute_table(const std::vector<MemoryCell>& cells);

const char* name_of_pass(const MemoryRow& row);
std::string title_of(const MemoryRow& row);  // "tiny, context 64, batch 4, bf16, step"

// Returns the bytes per category at the peak.
const lm::ByCategory& at_peak(const lm::MemoryTimeline& timeline);

// Returns the JSON document: a table of peaks with one row per cell, then one row per pass with every allocation and
// tensor.
Json memory_document(const std::vector<MemoryCell>& cells);

report::MemoryMap memory_map(const MemoryRow& row);  // the row must have figures

}  // namespace strobe::cli
