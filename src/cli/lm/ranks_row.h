// One row of `strobe lm bench --ddp`, and the figures that follow from its times. lm_bench_ranks_text.cpp prints them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lm/bench_options.h"
#include "core/statistics.h"
#include "lm/data_parallel/parallel_bench.h"

namespace strobe::cli {

struct ParallelRow {
  const LmBenchCell* cell = nullptr;
  std::optional<lm::ParallelOptions> exchange;  // none: one process on the whole batch
  std::vector<lm::ParallelTimes> ranks;         // none where it does not fit
  std::string error{};                          // why
};

// In seconds.
Summary slowest_steps(const ParallelRow& row);  // each step on the rank that was slowest in it
Summary part_of(const ParallelRow& row, double lm::ParallelStep::*part);  // all steps of all ranks
double mean_of(const lm::ParallelTimes& rank, double lm::ParallelStep::*part);

// The largest of all ranks.
std::size_t optimizer_bytes(const ParallelRow& row);
lm::ParallelMemory memory_of(const ParallelRow& row);

// The row of the same cell with this strategy ("": one process); null: not measured, or it does not fit.
const ParallelRow* find(const ParallelRow& row, const std::vector<ParallelRow>& rows, std::string_view strategy);

// Compared with one process and with `naive`; empty unless both were measured.
std::optional<double> speedup(const ParallelRow& row, const std::vector<ParallelRow>& rows);
std::optional<double> speedup_over_naive(const ParallelRow& row, const std::vector<ParallelRow>& rows);

// In percent: exposed communication of the step, and how much less of it there is than in `naive`.
std::optional<double> communication_share(const ParallelRow& row);
std::optional<double> reduction(const ParallelRow& row, const std::vector<ParallelRow>& rows);

}  // namespace strobe::cli
