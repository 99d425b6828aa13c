// `strobe lm bench` on ranks: measures, writes rows for files and text for people. bench.cpp uses it.
#pragma once

#include <cstddef>
#include <optional>
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
  std::optional<lm::ParallelOptions> exchange;  // none: one process on the whole batch
  std::vector<lm::ParallelTimes> ranks;         // one per rank; empty if the cell does not fit
  std::string error{};                          // why it does not fit
};

// Both summaries are in seconds.
Summary slowest_steps(const ParallelRow& row);  // each step on the rank that was slowest in it
Summary part_of(const ParallelRow& row, double lm::ParallelStep::*part);  // all steps of all ranks
double mean_of(const lm::ParallelTimes& rank, double lm::ParallelStep::*part);

// The maximum over all ranks.
std::size_t optimizer_bytes(const ParallelRow& row);
lm::ParallelMemory memory_of(const ParallelRow& row);

// Returns the row of the same cell with this strategy ("": one process). Returns null if it was not measured or does
// not fit.
const ParallelRow* find(const ParallelRow& row, const std::vector<ParallelRow>& rows, std::string_view strategy);

// Compared with one process and with `naive`; empty unless both were measured.
std::optional<double> speedup(const ParallelRow& row, const std::vector<ParallelRow>& rows);
std::optional<double> speedup_over_naive(const ParallelRow& row, const std::vector<ParallelRow>& rows);

// In percent: exposed communication of the step, and how much less of it there is than in `naive`.
std::optional<double> communication_share(const ParallelRow& row);
std::optional<double> reduction(const ParallelRow& row, const std::vector<ParallelRow>& rows);

// Called on every rank of the job that this process is in; rank 0 writes and prints. `arguments` are the words of this
// command, which its child gets too. Returns the exit code.
int run_lm_bench_on_ranks(const LmBenchOptions& options, Arguments arguments);

std::string title_of(const lm::ParallelOptions& exchange);  // "bucketed, 25 MB"
std::string line_of(const ParallelRow& row);

// Two tables per cell: times, then exchanged bytes and memory.
std::string parallel_tables(const std::vector<ParallelRow>& rows, int ranks);

// `rows` are all rows. The row is compared with those of one process and of `naive` in the same cell.
Json parallel_row_json(const ParallelRow& row, const std::vector<ParallelRow>& rows, int ranks);

}  // namespace strobe::cli
