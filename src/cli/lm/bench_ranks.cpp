// Implements `strobe lm bench --ddp`: measures training steps with every gradient exchange on all ranks, and writes the
// result rows.
#include "cli/lm/bench_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/program.h"
#include "app/progress.h"
#include "app/terminal.h"
#include "cli/lm/one_process.h"
#include "cli/lm/ranks.h"
#include "comm/agreement.h"
#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/fail.h"
#include "lm/data_parallel/parallel_bench.h"
#include "lm/data_parallel/parallel_model.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

// Returns the gradient exchanges to measure. Strategies with buckets occur once per bucket size.
std::vector<lm::ParallelOptions> exchanges_of(const LmBenchOptions& options) {
  std::vector<lm::ParallelOptions> exchanges;
  bool has_buckets = false;
  for (const std::string& name : options.strategies) {
    const lm::Strategy& strategy = lm::strategy_of(name);
    if (strategy.grouping != lm::Grouping::buckets || options.buckets.empty()) {
      exchanges.push_back({.strategy = strategy});
      continue;
    }
    has_buckets = true;
    for (const std::int64_t bytes : options.buckets) exchanges.push_back({.strategy = strategy, .bucket_bytes = bytes});
  }
  if (!options.buckets.empty() && !has_buckets) {
    fail(ErrorCode::invalid_argument, "--bucket-mb {}: --ddp {} has no buckets; valid with {}", options.bucket_text,
         fmt::join(options.strategies, ","), fmt::join(strategies_with_buckets(), ", "));
  }
  return exchanges;
}

// Returns the settings that must be the same on all ranks.
Json facts_of(const std::vector<LmBenchCell>& cells, const std::vector<lm::ParallelOptions>& exchanges) {
  std::string measured;
  for (const LmBenchCell& cell : cells) {
    measured += fmt::format("{}, {}, warm-up {}, steps {}, clip {}, attention {}; ", title_of(cell),
                            cell.one.execution.device == Device::cuda ? "cuda" : "cpu", cell.one.warmup, cell.one.steps,
                            cell.one.clip, cell.one.attention.empty() ? "auto" : cell.one.attention);
  }
  for (const lm::ParallelOptions& exchange : exchanges) measured += title_of(exchange) + "; ";
  return Json::object({{"what is measured", measured}});
}

struct RanksBench {
  const LmBenchOptions& options;
  Arguments arguments;  // words of this command
  std::vector<LmBenchCell> cells;
  std::vector<lm::ParallelOptions> exchanges;
};

std::vector<lm::ParallelTimes> times_of_all(comm::Communicator& ranks, const lm::ParallelTimes& own) {
  std::vector<lm::ParallelTimes> all;
  for (const std::string& text : comm::gather_texts(ranks, lm::to_json(own).dump())) {
    all.push_back(lm::parallel_times_from(Json::parse(text)));
  }
  return all;
}

// Measures one process in a child of rank 0 while the ranks sleep. Returns an empty row on the other ranks.
ParallelRow one_process_row(comm::Communicator& ranks, const RanksBench& bench, std::size_t index) {
  const LmBenchCell& cell = bench.cells[index];
  std::optional<OneProcess> process;
  if (ranks.rank() == 0) process.emplace(ranks, bench.arguments, index, cell.one.execution.threads);
  comm::while_others_sleep(ranks, [&] { return process->advance(); });
  ParallelRow row{.cell = &cell, .exchange = {}, .ranks = {}};
  if (!process) return row;
  row.error = process->error();
  if (process->times()) row.ranks = {*process->times()};
  return row;
}

// Returns the FLOPs of all steps of one row.
double flops_of_all_steps(const LmBenchCell& cell) {
  return (cell.one.warmup + cell.one.steps) * lm::flops_of(cell.one);
}

// Measures a cell in one process, then with every exchange on all ranks. Returns the rows on rank 0, none on other
// ranks.
std::vector<ParallelRow> measured(comm::Communicator& ranks, const RanksBench& bench, std::size_t index,
                                  WorkForecast& forecast) {
  const LmBenchCell& cell = bench.cells[index];
  const bool first = ranks.rank() == 0;
  std::vector<ParallelRow> rows;
  const auto add = [&](ParallelRow row, double seconds) {
    if (!first) return;
    rows.push_back(std::move(row));
    print_aside(line_of(rows.back()));  // printed now, because a later row may fail
    forecast.done(flops_of_all_steps(cell), seconds);
  };
  add(one_process_row(ranks, bench, index), 0);  // the time of one process does not predict the times of the exchanges
  for (const lm::ParallelOptions& exchange : bench.exchanges) {
    if (const std::string lacking = lm::lacking_memory(ranks, cell.one); !lacking.empty()) {
      add({.cell = &cell, .exchange = exchange, .ranks = {}, .error = lacking}, 0);
      continue;
    }
    const double begin = now_seconds();
    const lm::ParallelTimes own = lm::time_parallel_step(ranks, cell.one, exchange);
    add({.cell = &cell, .exchange = exchange, .ranks = times_of_all(ranks, own)}, now_seconds() - begin);
  }
  return rows;
}

std::string trace_of(const std::vector<ParallelRow>& rows) {
  std::vector<lm::TracedStep> steps;
  for (const ParallelRow& row : rows) {
    if (!row.exchange || !row.error.empty()) continue;
    lm::TracedStep step{.name = title_of(*row.cell) + ", " + title_of(*row.exchange), .ranks = {}};
    for (const lm::ParallelTimes& times : row.ranks) step.ranks.push_back(times.spans);
    steps.push_back(std::move(step));
  }
  return lm::parallel_trace_json(steps).dump() + "\n";
}

std::vector<ParallelRow> measured_cells(comm::Communicator& ranks, const RanksBench& bench) {
  double work = 0;
  for (const LmBenchCell& cell : bench.cells) {
    work += static_cast<double>(1 + bench.exchanges.size()) * flops_of_all_steps(cell);
  }
  WorkForecast forecast(work);
  std::vector<ParallelRow> rows;
  for (std::size_t i = 0; i < bench.cells.size(); ++i) {
    for (ParallelRow& row : measured(ranks, bench, i, forecast)) rows.push_back(std::move(row));
  }
  return rows;
}

int measure_and_write(comm::Communicator& ranks, const RanksBench& bench) {
  const LmBenchOptions& options = bench.options;
  comm::check_same_facts(ranks, facts_of(bench.cells, bench.exchanges));
  for (const LmBenchCell& cell : bench.cells) check_batch(ranks, cell.one.batch);
  std::optional<AtomicFile> file, trace;
  comm::on_first_rank(ranks, [&] {
    file.emplace(options.output, "--output");
    if (!options.trace.empty()) trace.emplace(options.trace, "--trace");
  });
  const bool first = ranks.rank() == 0;
  if (first) set_signal_message("lm bench: ended by a signal; nothing was written");
  const std::vector<ParallelRow> rows = measured_cells(ranks, bench);
  if (!first) return kFine;
  Json::Array written = parallel_rows_json(rows, ranks.size());
  print(parallel_tables(rows, written, ranks.size()));
  if (std::none_of(rows.begin(), rows.end(), [](const ParallelRow& row) { return row.error.empty(); })) {
    return complain_that_none_fits("lm bench", options.output);
  }
  set_signal_message("lm bench: ended by a signal");  // the output may already be written
  file->commit(Json::object({{"environment", environment_json()}, {"rows", Json::array(std::move(written))}}).dump(1) +
               "\n");
  if (trace) trace->commit(trace_of(rows));
  print(fmt::format("written: {}{}\n", options.output, trace ? ", " + options.trace : ""));
  return kFine;
}

std::size_t most(const ParallelRow& row, const auto& bytes_of) {
  std::size_t found = 0;
  for (const lm::ParallelTimes& rank : row.ranks) found = std::max<std::size_t>(found, bytes_of(rank));
  return found;
}

}  // namespace

int run_lm_bench_on_ranks(const LmBenchOptions& options, Arguments arguments) {
  const RanksBench bench{options, arguments, lm_bench_cells(options), exchanges_of(options)};
  if (options.pass != lm::BenchPass::step) {
    fail(ErrorCode::invalid_argument, "--pass: with --ddp whole steps are measured; valid: step");
  }
  const std::unique_ptr<comm::Communicator> ranks = join_ranks("lm bench", options.engine);
  take_gpu(*ranks, options.device);
  return end_together(*ranks, [&] { return measure_and_write(*ranks, bench); });
}

const ParallelRow* find(const ParallelRow& row, const std::vector<ParallelRow>& rows, std::string_view strategy) {
  for (const ParallelRow& other : rows) {
    const std::string_view name = other.exchange ? other.exchange->strategy.name : "";
    if (other.cell == row.cell && name == strategy && other.error.empty()) return &other;
  }
  return nullptr;
}

Summary slowest_steps(const ParallelRow& row) {
  std::vector<double> seconds(row.ranks[0].steps.size());
  for (const lm::ParallelTimes& rank : row.ranks) {
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = std::max(seconds[i], rank.steps[i].whole);
  }
  return summarize(seconds);
}

Summary part_of(const ParallelRow& row, double lm::ParallelStep::*part) {
  std::vector<double> seconds;
  for (const lm::ParallelTimes& rank : row.ranks) {
    for (const lm::ParallelStep& step : rank.steps) seconds.push_back(step.*part);
  }
  return summarize(seconds);
}

double mean_of(const lm::ParallelTimes& rank, double lm::ParallelStep::*part) {
  double sum = 0;
  for (const lm::ParallelStep& step : rank.steps) sum += step.*part;
  return sum / static_cast<double>(rank.steps.size());
}

std::size_t optimizer_bytes(const ParallelRow& row) {
  return most(row, [](const lm::ParallelTimes& rank) { return rank.optimizer_bytes; });
}

lm::ParallelMemory memory_of(const ParallelRow& row) {
  return {most(row, [](const lm::ParallelTimes& rank) { return rank.memory.after_init; }),
          most(row, [](const lm::ParallelTimes& rank) { return rank.memory.before_update; }),
          most(row, [](const lm::ParallelTimes& rank) { return rank.memory.after_step; })};
}

std::optional<double> speedup(const ParallelRow& row, const std::vector<ParallelRow>& rows) {
  const ParallelRow* alone = find(row, rows, "");
  if (!alone) return {};
  return slowest_steps(*alone).mean / slowest_steps(row).mean;
}

std::optional<double> communication_share(const ParallelRow& row) {
  if (!row.exchange) return {};
  return part_of(row, &lm::ParallelStep::exposed).mean / part_of(row, &lm::ParallelStep::whole).mean;
}

std::optional<double> speedup_over_naive(const ParallelRow& row, const std::vector<ParallelRow>& rows) {
  const ParallelRow* naive = find(row, rows, "naive");
  if (!row.exchange || !naive) return {};
  return slowest_steps(*naive).mean / slowest_steps(row).mean;
}

std::optional<double> reduction(const ParallelRow& row, const std::vector<ParallelRow>& rows) {
  const ParallelRow* naive = find(row, rows, "naive");
  if (!row.exchange || !naive) return {};
  const double before = part_of(*naive, &lm::ParallelStep::exposed).mean;
  if (!(before > 0)) return {};
  return 1 - part_of(row, &lm::ParallelStep::exposed).mean / before;
}

}  // namespace strobe::cli
