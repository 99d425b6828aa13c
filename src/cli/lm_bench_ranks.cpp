#include "cli/lm_bench_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/commands.h"
#include "cli/forecast.h"
#include "cli/lm_bench_ranks_text.h"
#include "cli/lm_ranks.h"
#include "comm/agreement.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "lm/data_parallel/parallel_model.h"
#include "lm/data_parallel/parallel_trace.h"
#include "measure/clock.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

// Strategies with buckets once for each size of these.
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

// What ranks must be told alike.
Json facts_of(const std::vector<LmBenchCell>& cells, const std::vector<lm::ParallelOptions>& exchanges) {
  std::string measured;
  for (const LmBenchCell& cell : cells) {
    measured += fmt::format("{}, {}, warm-up {}, steps {}, clip {}, attention {}; ", title_of(cell),
                            cell.one.place.device == Device::cuda ? "cuda" : "cpu", cell.one.warmup, cell.one.steps,
                            cell.one.clip, cell.one.attention.empty() ? "auto" : cell.one.attention);
  }
  for (const lm::ParallelOptions& exchange : exchanges) measured += title_of(exchange) + "; ";
  return Json::object({{"what is measured", measured}});
}

std::vector<lm::ParallelTimes> times_of_all(comm::Communicator& ranks, const lm::ParallelTimes& own) {
  std::vector<lm::ParallelTimes> all;
  for (const std::string& text : comm::gather_texts(ranks, lm::to_json(own).dump())) {
    all.push_back(lm::parallel_times_from(Json::parse(text)));
  }
  return all;
}

// One process on rank 0, while the others wait for each of its steps, so that no call lasts longer than one. On rank 0
// the row.
ParallelRow measured_alone(comm::Communicator& ranks, const LmBenchCell& cell) {
  int left = lm::lone_steps(cell.one);
  const auto meet = [&] {
    ranks.barrier();
    --left;
  };
  ParallelRow row{.cell = &cell, .exchange = {}, .ranks = {}};
  if (ranks.rank() == 0) {
    try {
      row.ranks = {lm::time_lone_step(cell.one, meet)};
    } catch (const Error& error) {  // the whole batch need not fit where shares of it do
      if (error.code() != ErrorCode::out_of_memory) throw;
      row.error = error.what();
    }
  }
  while (left > 0) meet();
  ranks.barrier();  // its memory is free again
  return row;
}

// Of one row.
double flops_of_all_steps(const LmBenchCell& cell) {
  return (cell.one.warmup + cell.one.steps) * lm::flops_of(cell.one);
}

// One process, then every exchange on all ranks. On rank 0 the rows.
std::vector<ParallelRow> measured(comm::Communicator& ranks, const LmBenchCell& cell,
                                  const std::vector<lm::ParallelOptions>& exchanges, WorkForecast& forecast) {
  const bool first = ranks.rank() == 0;
  std::vector<ParallelRow> rows;
  const auto told = [&](ParallelRow row, double seconds) {
    if (!first) return;
    rows.push_back(std::move(row));
    print_aside(line_of(rows.back()));  // so that they are known should a later one fail
    forecast.done(flops_of_all_steps(cell), seconds);
  };
  told(measured_alone(ranks, cell), 0);  // which tells nothing of the exchanges
  for (const lm::ParallelOptions& exchange : exchanges) {
    if (const std::string lacking = lm::lacking_memory(ranks, cell.one); !lacking.empty()) {
      told({.cell = &cell, .exchange = exchange, .ranks = {}, .error = lacking}, 0);
      continue;
    }
    const double begin = now_seconds();
    const lm::ParallelTimes own = lm::time_parallel_step(ranks, cell.one, exchange);
    told({.cell = &cell, .exchange = exchange, .ranks = times_of_all(ranks, own)}, now_seconds() - begin);
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

}  // namespace

int run_lm_bench_on_ranks(const LmBenchOptions& options) {
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  const std::vector<lm::ParallelOptions> exchanges = exchanges_of(options);
  if (options.pass != lm::BenchPass::step) {
    fail(ErrorCode::invalid_argument, "--pass: with --ddp whole steps are measured; valid: step");
  }
  const std::unique_ptr<comm::Communicator> ranks = join_ranks("lm bench", options.engine);
  take_gpu(*ranks, options.device);
  comm::check_same_facts(*ranks, facts_of(cells, exchanges));
  for (const LmBenchCell& cell : cells) lm::batch_of_a_rank(cell.one.batch, ranks->size());  // refuses
  const bool first = ranks->rank() == 0;
  std::optional<AtomicFile> file, trace;
  comm::on_first_rank(*ranks, [&] {
    file.emplace(options.output, "--output");
    if (!options.trace.empty()) trace.emplace(options.trace, "--trace");
  });
  if (first) set_last_words("lm bench: ended by a signal; nothing was written");
  double work = 0;
  for (const LmBenchCell& cell : cells) work += static_cast<double>(1 + exchanges.size()) * flops_of_all_steps(cell);
  WorkForecast forecast(work);
  std::vector<ParallelRow> rows;
  for (const LmBenchCell& cell : cells) {
    for (ParallelRow& row : measured(*ranks, cell, exchanges, forecast)) rows.push_back(std::move(row));
  }
  if (!first) return kFine;
  print(parallel_tables(rows, ranks->size()));
  if (std::none_of(rows.begin(), rows.end(), [](const ParallelRow& row) { return row.error.empty(); })) {
    complain(fmt::format("lm bench: no cell fits the memory; nothing is written to {}", options.output));
    return kRuntimeFailure;
  }
  Json items = Json::array();
  for (const ParallelRow& row : rows) items.push_back(parallel_row_json(row, rows, ranks->size()));
  set_last_words("lm bench: ended by a signal");  // with some or all of it written
  file->commit(Json::object({{"environment", environment_json()}, {"rows", std::move(items)}}).dump(1) + "\n");
  if (trace) trace->commit(trace_of(rows));
  print(fmt::format("written: {}{}\n", options.output, trace ? ", " + options.trace : ""));
  return kFine;
}

}  // namespace strobe::cli
