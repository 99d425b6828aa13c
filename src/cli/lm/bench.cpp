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
#include "cli/lm/keyed_table.h"
#include "cli/lm/one_process.h"
#include "cli/lm/ranks.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "core/units.h"
#include "lm/memory/timeline.h"
#include "lm/plan/device_memory.h"
#include "measure/environment.h"
#include "results/schema.h"

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
  return labelled_line(
      Style::caution, "skipped:",
      fmt::format("{}: {} of {} and {} of the updates had a gradient that overflowed; they updated nothing, but the "
                  "times above include them; a larger --warmup lowers the loss scale first",
                  title_of(*row.cell), times.skipped, counted(row.cell->one.steps, "step"), times.skipped_updates));
}

std::string oom_note(const Row& row) {
  const lm::BenchCase& one = row.cell->one;
  return labelled_line(Style::caution, "oom:",
                       fmt::format("{}: {}; predicted {}, residual-stream tensor {}", title_of(*row.cell), row.error,
                                   bytes_text(lm::predicted_bytes(one)), bytes_text(lm::residual_bytes(one))));
}

Json phase_json(const std::optional<lm::PhaseTimes>& phase) {
  return phase ? summary_json(phase->seconds).set("peak_bytes", phase->peak_bytes) : Json();
}

std::string mean_ms_text(const Json& phase) {
  return fmt::format("{:.3f} +-{:.3f}", 1e3 * phase.at("mean_s").as_number(), 1e3 * phase.at("stddev_s").as_number());
}

const char* name_of_pass(lm::BenchPass pass) {
  return pass == lm::BenchPass::forward ? "forward" : pass == lm::BenchPass::step ? "step" : "forward_backward";
}

void begin_step_row(Json& json, const Row& row) {
  const lm::BenchCase& one = row.cell->one;
  add_model(json, *row.cell);
  json.set("pass", name_of_pass(one.pass))
      .set("device", one.execution.device == Device::cuda ? "cuda" : "cpu")
      .set("threads", one.execution.threads)
      .set("attention", one.attention.empty() ? "auto" : one.attention)
      .set("deterministic", one.execution.deterministic)
      .set("clip", one.clip)
      .set("warmup", one.warmup)
      .set("steps", one.steps)
      .set("predicted_bytes", lm::predicted_bytes(one))
      .set("residual_tensor_bytes", lm::residual_bytes(one))
      .set("status", row.times ? "ok" : "oom");
  if (!row.times) json.set("reason", row.error);
}

const std::function<std::string(const Json&)> kMebibytesText = number_text("{:.0f}", 1 / kMiB);

RowType<Row> step_row_type(const std::vector<Row>& rows, const Ceilings& ceilings) {
  return {.begin = begin_step_row,
          .identity = {{"model", left("size")},
                       {"context", "context"},
                       {"batch", "batch"},
                       {"warmup", "warm-up"},
                       {"precision", left("precision")},
                       {"recompute", left("recompute")}},
          .figures = {
              {"forward", "", [](const Row& row) { return phase_json(row.times->forward); }},
              {"backward", "", [](const Row& row) { return phase_json(row.times->backward); }},
              {"update", "", [](const Row& row) { return phase_json(row.times->update); }},
              {"whole", "whole ms", [](const Row& row) { return phase_json(row.times->whole); }, mean_ms_text},
              {"whole.peak_bytes", "peak MiB", {}, kMebibytesText},
              {"tokens_per_s", "tokens/s", tokens_per_second, number_text("{:.0f}")},
              {"flop", "", [](const Row& row) { return Json(lm::flops_of(row.cell->one)); }},
              {"flop_per_s", "TFLOP/s", flop_rate, number_text("{:.3g}", 1e-12)},
              {"share_of_ceiling", "MFU %", [&](const Row& row) { return json_if(share_of_ceiling(row, ceilings)); },
               number_text("{:.1f}", 100)},
              {"speedup_over_fp32", "vs fp32", [&](const Row& row) { return json_if(speedup(row, rows)); },
               number_text("{:.2f}")},
              {"skipped", "", [](const Row& row) { return Json(row.times->skipped); }},
              {"skipped_updates", "", [](const Row& row) { return Json(row.times->skipped_updates); }},
              {"loss", "loss", [](const Row& row) { return Json(row.times->loss); }, number_text("{:.4f}")}}};
}

// Returns a table with one row per phase of each cell and one for the whole pass.
std::string phase_table(const RowType<Row>& type, std::span<const Json> rows) {
  std::vector<Json> phases;
  for (const Json& row : rows) {
    for (const char* const name : {"forward", "backward", "update", "whole"}) {
      const Json* figures = row.find(name);
      if (figures && !figures->is_null()) phases.push_back(Json(row).set("phase", name).set("figures", *figures));
    }
  }
  const RowColumn columns[] = {{"phase", left("phase")},
                               {"figures", "ms", mean_ms_text},
                               {"figures.median_s", "median ms", number_text("{:.3f}", 1e3)},
                               {"figures.peak_bytes", "peak MiB", kMebibytesText}};
  if (phases.empty()) return "";
  return "\n" + keyed_text(table_of_rows(type.identity, columns, phases), type.identity.size());
}

void check_rank_options(const LmBenchOptions& options) {
  if (options.strategies.empty()) {
    refuse_several_ranks("lm bench");
    if (!options.buckets.empty()) {
      exchange_from({.strategy = "",
                     .bucket_bytes = options.buckets[0],
                     .bucket_text = options.bucket_text});  // throws: no --ddp
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
  const RowType<Row> type = step_row_type(rows, ceilings);
  Json::Array written;
  std::string notes;
  for (const Row& row : rows) {
    written.push_back(type.json(row));
    notes += row.times ? skipped_note(row) : oom_note(row);
  }
  print(keyed_text(type.table(written), type.identity.size()) + notes + phase_table(type, written));
  if (options.device == Device::cpu) print(note_lines(neighbours.notes()));
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.times.has_value(); })) {
    return complain_that_none_fits("lm bench", options.output);
  }
  set_signal_message("lm bench: ended by a signal");  // the output may already be written
  Json rates = Json::object();
  for (const auto& [precision, rate] : ceilings) rates.set(name_of(precision), rate);
  file.commit(Json::object({{"environment", environment_json()},
                            {"matrix_product_flop_per_s", rates},
                            {"rows", Json::array(std::move(written))}})
                  .dump(1) +
              "\n");
  print(fmt::format("written: {}\n", options.output));
  return kFine;
}

}  // namespace strobe::cli
