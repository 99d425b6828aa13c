// What `strobe lm memory` found, for people, for programs and as a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/lm_bench_options.h"
#include "lm/memory_bench.h"
#include "report/memory_map.h"

namespace strobe::cli {

struct MemoryRow {
  LmBenchCell cell;
  std::optional<lm::MemoryFigures> figures;
  std::string error;              // where there are none: out of memory
  std::optional<double> seconds;  // of the fastest step, where recomputations are compared
  std::int64_t skipped = 0;       // fp16: of those steps, ones that updated nothing
};

// The peak by category, predicted beside counted, and the largest tensors of each row.
std::string memory_tables(const std::vector<MemoryRow>& rows);

// What recomputation buys and costs: peak, activations saved for the backward and time, beside those of none.
std::string recompute_table(const std::vector<MemoryRow>& rows);

// JSON with every allocation, every tensor and every moment.
std::string memory_document(const std::vector<MemoryRow>& rows);

report::MemoryMap memory_map(const MemoryRow& row);

}  // namespace strobe::cli
