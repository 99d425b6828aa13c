// Formats the tables and JSON rows of `strobe lm bench --ddp`.
#include "cli/lm/bench_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

double tokens_of(const ParallelRow& row) {
  return static_cast<double>(row.cell->one.batch * row.cell->one.shape.context);
}

std::string name_of(const ParallelRow& row) { return row.exchange ? row.exchange->strategy.name : "one process"; }

const char* device_of(const ParallelRow& row) {
  return row.cell->one.execution.device == Device::cuda ? "cuda" : "cpu";
}

std::optional<double> bucket_megabytes(const ParallelRow& row) {
  if (!row.exchange || row.exchange->strategy.grouping != lm::Grouping::buckets) return {};
  return 1e-6 * static_cast<double>(row.exchange->bucket_bytes);
}

std::string milliseconds(const Summary& seconds) {
  return fmt::format("{:.2f} +-{:.2f}", 1e3 * seconds.mean, 1e3 * seconds.stddev);
}

std::string bucket_text(const ParallelRow& row) {
  const std::optional<double> bucket = bucket_megabytes(row);
  return bucket ? fmt::format("{}", *bucket) : "-";
}

std::string megabytes_text(std::size_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6); }

constexpr double lm::ParallelStep::*const kParts[] = {&lm::ParallelStep::forward, &lm::ParallelStep::backward,
                                                      &lm::ParallelStep::exposed, &lm::ParallelStep::hidden,
                                                      &lm::ParallelStep::optimizer};
constexpr const char* kPartNames[] = {"forward", "backward", "exposed", "hidden", "optimizer"};

std::string skipped_note(const ParallelRow& row) {
  const lm::ParallelTimes& times = row.ranks[0];
  if (times.skipped == 0) return "";
  return fmt::format(
      "skipped: {}: {} of {} had a gradient that overflowed and updated nothing; a larger --warmup lowers the "
      "loss scale first\n",
      row.exchange ? title_of(*row.exchange) : name_of(row), times.skipped, counted(row.cell->one.steps, "step"));
}

// Compares `flat` (one call for all gradients) with `naive` (one call per parameter). Empty unless both were measured.
std::string flat_note(const ParallelRow& of_cell, const std::vector<ParallelRow>& rows) {
  const ParallelRow *naive = find(of_cell, rows, "naive"), *flat = find(of_cell, rows, "flat");
  if (!naive || !flat) return "";
  return fmt::format(
      "flat vs naive: speedup {:.2f}, {:.2f} ms per step instead of {:.2f}, communication {:.1f} % of the step "
      "instead of {:.1f}\n",
      *speedup_over_naive(*flat, rows), 1e3 * slowest_steps(*flat).mean, 1e3 * slowest_steps(*naive).mean,
      *communication_share(*flat), *communication_share(*naive));
}

std::string times_table(const std::vector<const ParallelRow*>& of_cell, const std::vector<ParallelRow>& rows) {
  Table table{.columns = {left("strategy"), "bucket MB", "step ms", "forward ms", "backward ms", "exposed ms",
                          "hidden ms", "optimizer ms", "comm %", "samples/s", "vs one", "vs naive", "less exposed %",
                          "s/M tokens", "loss"}};
  std::string notes;
  for (const ParallelRow* row : of_cell) {
    if (!row->error.empty()) {
      table.cells.push_back({name_of(*row), bucket_text(*row), "oom"});
      notes += fmt::format("oom: {}: {}\n", row->exchange ? title_of(*row->exchange) : name_of(*row), row->error);
      continue;
    }
    const Summary step = slowest_steps(*row);
    std::vector<std::string> cells{name_of(*row), bucket_text(*row), milliseconds(step)};
    for (const auto part : kParts) cells.push_back(milliseconds(part_of(*row, part)));
    const auto number = [](const char* format, std::optional<double> value) {
      return value ? fmt::format(fmt::runtime(format), *value) : "-";
    };
    cells.push_back(number("{:.1f}", communication_share(*row)));
    cells.push_back(fmt::format("{:.1f}", static_cast<double>(row->cell->one.batch) / step.mean));
    cells.push_back(number("{:.2f}", speedup(*row, rows)));
    cells.push_back(number("{:.2f}", speedup_over_naive(*row, rows)));
    cells.push_back(number("{:.0f}", reduction(*row, rows)));
    cells.push_back(fmt::format("{:.2f}", 1e6 * step.mean / tokens_of(*row)));
    cells.push_back(fmt::format("{:.4f}", row->ranks[0].loss));
    table.cells.push_back(std::move(cells));
    notes += skipped_note(*row);
  }
  return table.text() + notes + flat_note(*of_cell[0], rows);
}

// Returns a table of the calls, bytes and memory of the measured rows.
std::string exchange_table(const std::vector<const ParallelRow*>& of_cell) {
  Table table{.columns = {left("strategy"), "bucket MB", "calls", "buckets", "exchanged MB", "optimizer MB",
                          "after init MB", "before update MB", "after step MB"}};
  for (const ParallelRow* row : of_cell) {
    const lm::ParallelTimes& times = row->ranks[0];
    const lm::ParallelMemory memory = memory_of(*row);
    table.cells.push_back({name_of(*row), bucket_text(*row), std::to_string(times.calls), std::to_string(times.buckets),
                           megabytes_text(static_cast<std::size_t>(times.bytes)), megabytes_text(optimizer_bytes(*row)),
                           megabytes_text(memory.after_init), megabytes_text(memory.before_update),
                           megabytes_text(memory.after_step)});
  }
  return table.text();
}

Json summary_json(const Summary& s) {
  return Json::object({{"n", s.n},
                       {"mean(ms)", 1e3 * s.mean},
                       {"stddev(ms)", 1e3 * s.stddev},
                       {"median(ms)", 1e3 * s.median},
                       {"low(ms)", 1e3 * s.low},
                       {"high(ms)", 1e3 * s.high},
                       {"confidence", s.confidence}});
}

// Returns the time of a part in every step, in ms.
Json steps_json(const lm::ParallelTimes& rank, double lm::ParallelStep::*part) {
  Json samples = Json::array();
  for (const lm::ParallelStep& step : rank.steps) samples.push_back(1e3 * step.*part);
  return samples;
}

// Returns the mean times of each rank, and the times of each step under "samples".
Json ranks_json(const ParallelRow& row) {
  Json ranks = Json::array();
  for (const lm::ParallelTimes& times : row.ranks) {
    Json rank = Json::object({{"step(ms)", 1e3 * mean_of(times, &lm::ParallelStep::whole)}});
    Json samples = Json::object({{"step(ms)", steps_json(times, &lm::ParallelStep::whole)}});
    for (std::size_t i = 0; i < std::size(kParts); ++i) {
      const std::string name = std::string(kPartNames[i]) + "(ms)";
      rank.set(name, 1e3 * mean_of(times, kParts[i]));
      samples.set(name, steps_json(times, kParts[i]));
    }
    rank.set("optimizer(B)", times.optimizer_bytes).set("samples", std::move(samples));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace

std::string title_of(const lm::ParallelOptions& exchange) {
  if (exchange.strategy.grouping != lm::Grouping::buckets) return exchange.strategy.name;
  return fmt::format("{}, {} MB", exchange.strategy.name, 1e-6 * static_cast<double>(exchange.bucket_bytes));
}

std::string line_of(const ParallelRow& row) {
  return fmt::format("{}: {}: {}\n", title_of(*row.cell), row.exchange ? title_of(*row.exchange) : name_of(row),
                     row.error.empty() ? fmt::format("{:.2f} ms", 1e3 * slowest_steps(row).mean) : "oom");
}

std::string parallel_tables(const std::vector<ParallelRow>& rows, int ranks) {
  std::string text;
  for (std::size_t i = 0; i < rows.size();) {
    std::vector<const ParallelRow*> of_cell;
    for (const LmBenchCell* cell = rows[i].cell; i < rows.size() && rows[i].cell == cell; ++i) {
      of_cell.push_back(&rows[i]);
    }
    text += fmt::format("{}, {}, {}\n", title_of(*of_cell[0]->cell), counted(ranks, "rank"), device_of(*of_cell[0]));
    text += times_table(of_cell, rows) + "\n";
    std::erase_if(of_cell, [](const ParallelRow* row) { return !row->error.empty(); });
    if (!of_cell.empty()) text += exchange_table(of_cell) + "\n";
  }
  return text;
}

Json parallel_row_json(const ParallelRow& row, const std::vector<ParallelRow>& rows, int ranks) {
  const lm::BenchCase& one = row.cell->one;
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  Json json = Json::object({{"kind", "data parallel step"},
                            {"strategy", name_of(row)},
                            {"bucket(MB)", number(bucket_megabytes(row))},
                            {"ranks", row.exchange ? ranks : 1}});
  add_model(json, *row.cell);
  json.set("device", device_of(row))
      .set("threads of a rank", one.execution.threads)
      .set("warmup", one.warmup)
      .set("clip", one.clip)
      .set("status", row.error.empty() ? "ok" : "oom");
  if (!row.error.empty()) return json.set("error", row.error);
  const Summary step = slowest_steps(row);
  const lm::ParallelTimes& times = row.ranks[0];
  const lm::ParallelMemory memory = memory_of(row);
  json.set("step", summary_json(step));
  for (std::size_t i = 0; i < std::size(kParts); ++i) {
    json.set(std::string("part ") + kPartNames[i], summary_json(part_of(row, kParts[i])));
  }
  json.set("samples/s", static_cast<double>(one.batch) / step.mean);
  json.set("tokens/s", tokens_of(row) / step.mean);
  json.set("seconds_per_million_tokens", 1e6 * step.mean / tokens_of(row));
  json.set("speedup_over_one_process", number(speedup(row, rows)));
  json.set("speedup_over_naive", number(speedup_over_naive(row, rows)));
  json.set("communication_share(%)", number(communication_share(row)));
  json.set("exposed_less_than_naive(%)", number(reduction(row, rows)));
  json.set("calls", times.calls).set("buckets", times.buckets).set("exchanged(B)", times.bytes);
  json.set("optimizer(B)", optimizer_bytes(row));
  json.set("memory", Json::object({{"after_init(B)", memory.after_init},
                                   {"before_update(B)", memory.before_update},
                                   {"after_step(B)", memory.after_step}}));
  json.set("loss", times.loss).set("skipped", times.skipped);
  return json.set("by_rank", ranks_json(row));
}

}  // namespace strobe::cli
