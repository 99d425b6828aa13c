// `strobe lm bench --ddp`: measures a step on several ranks and formats the results as tables and JSON rows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/program.h"
#include "cli/lm/bench_options.h"
#include "core/json.h"
#include "core/statistics.h"
#include "lm/data_parallel/data_parallel.h"
#include "lm/data_parallel/parallel_bench.h"

namespace strobe::cli {

struct ParallelRow {
  const LmBenchCell* cell = nullptr;
  std::optional<lm::ParallelOptions> exchange;  // nullopt: one process computes the whole batch
  std::vector<lm::ParallelTimes> ranks;         // one per rank; empty if the cell does not fit
  std::string error{};                          // why the cell does not fit
};

// All three return seconds.
Summary slowest_steps(const ParallelRow& row);  // per step, the time of the rank that was slowest in it
Summary part_of(const ParallelRow& row, double lm::ParallelStep::*part);        // over all steps of all ranks
double mean_of(const lm::ParallelTimes& rank, double lm::ParallelStep::*part);  // over all steps of one rank

// Both return the maximum over all ranks.
std::size_t optimizer_bytes(const ParallelRow& row);
lm::ParallelMemory memory_of(const ParallelRow& row);

// Returns the row of the same cell with this strategy ("": one process); null if it was not measured or does not fit.
const ParallelRow* find(const ParallelRow& row, const std::vector<ParallelRow>& rows, std::string_view strategy);

// Return the speedup over one process and over the strategy `naive`; nullopt if the other row was not measured.
std::optional<double> speedup(const ParallelRow& row, const std::vector<ParallelRow>& rows);
std::optional<double> speedup_over_naive(const ParallelRow& row, const std::vector<ParallelRow>& rows);

// Return ratios: exposed communication / step time, and the reduction of exposed communication relative to `naive`.
std::optional<double> communication_share(const ParallelRow& row);
std::optional<double> reduction(const ParallelRow& row, const std::vector<ParallelRow>& rows);

// Call it on every rank of the job; only rank 0 writes and prints. `arguments` are the words of this command; the child
// that measures the row `one process` gets them too (one_process.h). Returns the exit code.
int run_lm_bench_on_ranks(const LmBenchOptions& options, Arguments arguments);

std::string title_of(const lm::ParallelOptions& exchange);  // "bucketed, 25 MB"
std::string line_of(const ParallelRow& row);

// Compares each row with those of one process and of `naive` in the same cell.
Json::Array parallel_rows_json(const std::vector<ParallelRow>& rows, int ranks);

// Returns two tables per cell: times, then exchanged bytes and memory. `written` are the rows as JSON.
std::string parallel_tables(const std::vector<ParallelRow>& rows, std::span<const Json> written, int ranks);

}  // namespace strobe::cli
