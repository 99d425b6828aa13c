// Rows of `strobe lm bench --ddp`, as tables and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/lm_bench_options.h"
#include "core/json.h"
#include "lm/data_parallel/parallel_bench.h"

namespace strobe::cli {

struct ParallelRow {
  const LmBenchCell* cell = nullptr;
  std::optional<lm::ParallelOptions> exchange;  // none: one process on the whole batch
  std::vector<lm::ParallelTimes> ranks;         // none where it does not fit
  std::string error{};                          // why
};

std::string title_of(const lm::ParallelOptions& exchange);  // "bucketed, 25 MB"
std::string line_of(const ParallelRow& row);

// Two tables a cell: times, then what was exchanged and held.
std::string parallel_tables(const std::vector<ParallelRow>& rows, int ranks);

// rows: all, for one process and `naive` of the same cell, beside which the row is put.
Json parallel_row_json(const ParallelRow& row, const std::vector<ParallelRow>& rows, int ranks);

}  // namespace strobe::cli
