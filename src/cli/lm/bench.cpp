// Implements `strobe lm bench`: measures every combination of the flags' values (a cell), prints a table and writes the
// output file.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "app/common_options.h"
#include "app/help.h"
#include "app/progress.h"
#include "app/terminal.h"
#include "bench/ceilings.h"
#include "cli/bench/neighbours.h"
#include "cli/lm/bench_options.h"
#include "cli/lm/bench_ranks.h"
#include "cli/lm/one_process.h"
#include "cli/lm/ranks.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "lm/memory/timeline.h"
#include "lm/plan/device_memory.h"
#include "measure/environment.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmBenchIntroduction =
    "usage: strobe lm bench [--flag value ...]\n\n"
    "Measures a language model's training step: mean +- standard deviation, median and peak memory of the whole pass\n"
    "and of each phase; tokens/s and TFLOP/s from the mean; share of the machine's matmul rate (MFU); speedup vs\n"
    "fp32. Comma-separated values are measured in every combination. A combination that does not fit the memory is a\n"
    "row `oom`; if none fits, nothing is written and the exit code is 3.\n\n"
    "  strobe lm bench --size small,medium --precision fp32,bf16 --deterministic off\n"
    "  strobe launch -n 2 -- lm bench --ddp all --bucket-mb 1,10,100 --trace trace.json\n\n";

struct Row {
  const LmBenchCell* cell = nullptr;
  std::optional<lm::BenchTimes> times;
  std::string error;  // why the times are missing
};

double flops_of_all_passes(const LmBenchCell& cell) {
  return static_cast<double>(lm::passes_of(cell.one)) * lm::flops_of(cell.one);
}

Row measured(const LmBenchCell& cell, WorkForecast& forecast) {
  Row row{.cell = &cell, .times = {}, .error = {}};
  const auto after_run = [&](double seconds) { forecast.done(lm::flops_of(cell.one), seconds); };
  row.error = oom_of(title_of(cell), [&] { row.times = lm::time_step(cell.one, after_run); }).value_or("");
  if (!row.times) forecast.done(flops_of_all_passes(cell), 0);
  return row;
}

// FLOP/s of a large matmul, per precision.
using Ceilings = std::map<lm::Precision, double>;

Ceilings measure_ceilings(const LmBenchOptions& options) {
  Ceilings found;
  if (options.quick) return found;
  std::vector<DType> types;
  bool needs_tf32 = false;
  for (const lm::Precision precision : options.precisions) {
    types.push_back(dtype_of(precision));
    needs_tf32 |= precision == lm::Precision::tf32;
  }
  const bench::Ceilings ceilings =
      options.device == Device::cuda
          ? bench::measure_gpu_ceilings(types, needs_tf32 ? bench::Depth::full : bench::Depth::brief)
          : bench::measure_ceilings(threads_of(options.threads), types, bench::Depth::brief);
  if (ceilings.disturbed() && std::ranges::find(options.precisions, lm::Precision::fp32) != options.precisions.end()) {
    print(note_lines({kSgemmNotAlone}));
  }
  for (const lm::Precision precision : options.precisions) {
    const auto rate = precision == lm::Precision::tf32 ? ceilings.tf32 : ceilings.matmul(dtype_of(precision));
    if (rate) found[precision] = *rate;
  }
  return found;
}

double tokens_per_second(const Row& row) {
  const lm::BenchCase& one = row.cell->one;
  return static_cast<double>(one.batch * one.shape.context) / row.times->whole.seconds.mean;
}

double flop_rate(const Row& row) { return lm::flops_of(row.cell->one) / row.times->whole.seconds.mean; }

// Returns the speedup over the fp32 row with the same size, context, batch, warm-up and recomputation; nullopt if that
// row was not measured.
std::optional<double> speedup(const Row& row, const std::vector<Row>& rows) {
  const auto key = [](const Row& of) {
    const lm::BenchCase& one = of.cell->one;
    return std::tuple(of.cell->size, one.shape.context, one.batch, one.warmup, one.recompute);
  };
  for (const Row& other : rows) {
    if (other.times && row.times && other.cell->one.precision == lm::Precision::fp32 && key(other) == key(row)) {
      return other.times->whole.seconds.mean / row.times->whole.seconds.mean;
    }
  }
  return {};
}

std::optional<double> share_of_ceiling(const Row& row, const Ceilings& ceilings) {
  const auto found = ceilings.find(row.cell->one.precision);
  if (found == ceilings.end() || !row.times) return {};
  return flop_rate(row) / found->second;
}

std::string line_of(const Row& row) {
  if (!row.times) return title_of(*row.cell) + ": oom\n";
  return fmt::format("{}: {:.0f} tokens/s{}\n", title_of(*row.cell), tokens_per_second(row),
                     row.times->skipped > 0 ? fmt::format(", {} skipped", counted(row.times->skipped, "step")) : "");
}

// Returns a note on skipped fp16 steps, which the times include; "" if none was skipped.
std::string skipped_note(const Row& row) {
  const lm::BenchTimes& times = *row.times;
  if (times.skipped == 0 && times.skipped_updates == 0) return "";
  return fmt::format(
      "skipped: {}: {} of {} and {} of the updates had a gradient that overflowed; they updated nothing, but the "
      "times above include them; a larger --warmup lowers the loss scale first\n",
      title_of(*row.cell), times.skipped, counted(row.cell->one.steps, "step"), times.skipped_updates);
}

std::string mean_text(const lm::PhaseTimes& times) {
  return fmt::format("{:.3f} +-{:.3f}", 1e3 * times.seconds.mean, 1e3 * times.seconds.stddev);
}

std::string peak_text(const lm::PhaseTimes& times) {
  return fmt::format("{:.0f}", static_cast<double>(times.peak_bytes) / (1 << 20));
}

// Returns an empty table with the columns that identify a cell, then `more`.
Table cell_table(std::initializer_list<Heading> more) {
  Table table{.columns = {left("size"), "context", "batch", "warm-up", left("precision"), left("recompute")}};
  table.columns.insert(table.columns.end(), more);
  return table;
}

std::vector<std::string> cell_columns(const LmBenchCell& cell) {
  const lm::BenchCase& one = cell.one;
  return {model_text(cell),          std::to_string(one.shape.context),
          std::to_string(one.batch), std::to_string(one.warmup),
          name_of(one.precision),    name_of(one.recompute)};
}

// Returns a table with one row per phase of each cell and one for the whole pass.
std::string phase_table(const std::vector<Row>& rows) {
  Table table = cell_table({left("phase"), "ms", "median ms", "peak MiB"});
  for (const Row& row : rows) {
    if (!row.times) continue;
    const lm::BenchTimes& times = *row.times;
    const auto add = [&](const char* name, const std::optional<lm::PhaseTimes>& phase) {
      if (!phase) return;
      std::vector<std::string> cells = cell_columns(*row.cell);
      cells.insert(cells.end(),
                   {name, mean_text(*phase), fmt::format("{:.3f}", 1e3 * phase->seconds.median), peak_text(*phase)});
      table.cells.push_back(std::move(cells));
    };
    add("forward", times.forward);
    add("backward", times.backward);
    add("update", times.update);
    add("whole", times.whole);
  }
  return table.cells.empty() ? "" : "\n" + table.text();
}

std::string oom_note(const Row& row) {
  const lm::BenchCase& one = row.cell->one;
  const auto mib = [](std::size_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); };
  return fmt::format("oom: {}: {}; predicted {} MiB, residual-stream tensor {} MiB\n", title_of(*row.cell), row.error,
                     mib(lm::predicted_bytes(one)), mib(lm::residual_bytes(one)));
}

std::string table_text(const std::vector<Row>& rows, const Ceilings& ceilings) {
  Table table = cell_table({"whole ms", "peak MiB", "tokens/s", "TFLOP/s", "MFU %", "vs fp32", "loss"});
  std::string notes;
  for (const Row& row : rows) {
    std::vector<std::string> cells = cell_columns(*row.cell);
    if (row.times) {
      const lm::BenchTimes& times = *row.times;
      const auto mfu = share_of_ceiling(row, ceilings);
      const auto gain = speedup(row, rows);
      cells.push_back(mean_text(times.whole));
      cells.push_back(peak_text(times.whole));
      cells.push_back(fmt::format("{:.0f}", tokens_per_second(row)));
      cells.push_back(fmt::format("{:.3g}", 1e-12 * flop_rate(row)));
      cells.push_back(mfu ? fmt::format("{:.1f}", 100 * *mfu) : "-");
      cells.push_back(gain ? fmt::format("{:.2f}", *gain) : "-");
      cells.push_back(fmt::format("{:.4f}", times.loss));
      notes += skipped_note(row);
    } else {
      cells.emplace_back("oom");
      notes += oom_note(row);
    }
    table.cells.push_back(std::move(cells));
  }
  return table.text() + notes + phase_table(rows);
}

Json phase_json(const std::optional<lm::PhaseTimes>& phase) {
  if (!phase) return {};
  const Summary& s = phase->seconds;
  return Json::object({{"mean(ms)", 1e3 * s.mean},
                       {"stddev(ms)", 1e3 * s.stddev},
                       {"median(ms)", 1e3 * s.median},
                       {"min(ms)", 1e3 * s.min},
                       {"max(ms)", 1e3 * s.max},
                       {"peak(B)", phase->peak_bytes}});
}

const char* name_of_pass(lm::BenchPass pass) {
  return pass == lm::BenchPass::forward ? "forward" : pass == lm::BenchPass::step ? "step" : "forward_backward";
}

Json row_json(const Row& row, const std::vector<Row>& rows, const Ceilings& ceilings) {
  const lm::BenchCase& one = row.cell->one;
  Json json = Json::object();
  add_model(json, *row.cell);
  json.set("pass", name_of_pass(one.pass))
      .set("device", one.execution.device == Device::cuda ? "cuda" : "cpu")
      .set("threads", one.execution.threads)
      .set("attention", one.attention.empty() ? "auto" : one.attention)
      .set("deterministic", one.execution.deterministic)
      .set("clip", one.clip)
      .set("warmup", one.warmup)
      .set("steps", one.steps)
      .set("predicted(B)", lm::predicted_bytes(one))
      .set("residual_tensor(B)", lm::residual_bytes(one))
      .set("status", row.times ? "ok" : "oom");
  if (!row.times) return json.set("error", row.error);
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  json.set("forward", phase_json(row.times->forward));
  json.set("backward", phase_json(row.times->backward));
  json.set("update", phase_json(row.times->update));
  json.set("whole", phase_json(row.times->whole));
  json.set("tokens/s", tokens_per_second(row));
  json.set("FLOP", lm::flops_of(one));
  json.set("FLOP/s", flop_rate(row));
  json.set("share_of_ceiling", number(share_of_ceiling(row, ceilings)));
  json.set("speedup_over_fp32", number(speedup(row, rows)));
  json.set("skipped", row.times->skipped);
  json.set("skipped_updates", row.times->skipped_updates);
  return json.set("loss", row.times->loss);
}

std::string document(const std::vector<Row>& rows, const Ceilings& ceilings) {
  Json items = Json::array(), rates = Json::object();
  for (const Row& row : rows) items.push_back(row_json(row, rows, ceilings));
  for (const auto& [precision, rate] : ceilings) rates.set(name_of(precision), rate);
  Json json = Json::object({{"environment", environment_json()}, {"matrix_product(FLOP/s)", rates}, {"rows", items}});
  return json.dump(1) + "\n";
}

void check_rank_options(const LmBenchOptions& options) {
  if (options.strategies.empty()) {
    refuse_several_ranks("lm bench");
    if (!options.buckets.empty()) {
      exchange_from(
          {.strategy = "", .bucket_bytes = options.buckets[0], .bucket_text = options.bucket_text});  // throws
    }
    if (options.engine != comm::EngineKind::automatic) {
      fail(ErrorCode::invalid_argument, "--engine: nothing is exchanged without --ddp; leave --engine out");
    }
    if (!options.trace.empty()) fail(ErrorCode::invalid_argument, "--trace: valid only with --ddp");
    return;
  }
  check_apart("--trace", options.trace, "--output", options.output);
  check_engine(options.device, options.engine);
}

}  // namespace

int run_lm_bench(Arguments arguments) {
  LmBenchOptions options = default_lm_bench_options();
  const OptionTable table = lm_bench_table(options);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kLmBenchIntroduction + table.help());
    return kFine;
  }
  if (!options.as_one_process.empty()) return run_as_one_process(options);
  check_rank_options(options);
  check_default(options.output, "lm_bench_result.json", "\"environment\"");
  if (!options.strategies.empty()) return run_lm_bench_on_ranks(options, arguments);
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  AtomicFile file(options.output, "--output");
  set_signal_message("lm bench: ended by a signal; nothing was written");
  const Neighbours neighbours;
  const Ceilings ceilings = measure_ceilings(options);
  double work = 0;
  for (const LmBenchCell& cell : cells) work += flops_of_all_passes(cell);
  WorkForecast forecast(work);
  std::vector<Row> rows;
  for (const LmBenchCell& cell : cells) {
    rows.push_back(measured(cell, forecast));
    print_aside(line_of(rows.back()));  // printed now, because a later cell may fail
  }
  print(table_text(rows, ceilings));
  if (options.device == Device::cpu) print(note_lines(neighbours.notes()));
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.times.has_value(); })) {
    return complain_that_none_fits("lm bench", options.output);
  }
  set_signal_message("lm bench: ended by a signal");  // the output may already be written
  file.commit(document(rows, ceilings));
  print(fmt::format("written: {}\n", options.output));
  return kFine;
}

}  // namespace strobe::cli
