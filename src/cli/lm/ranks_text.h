// Rows of `strobe lm bench --ddp`, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/lm/ranks_row.h"
#include "core/json.h"
#include "lm/data_parallel/data_parallel.h"

namespace strobe::cli {

std::string title_of(const lm::ParallelOptions& exchange);  // "bucketed, 25 MB"
std::string line_of(const ParallelRow& row);

// Two tables per cell: times, then what was exchanged and held.
std::string parallel_tables(const std::vector<ParallelRow>& rows, int ranks);

// rows: all rows. The row is compared with those of one process and of `naive` in the same cell.
Json parallel_row_json(const ParallelRow& row, const std::vector<ParallelRow>& rows, int ranks);

}  // namespace strobe::cli
