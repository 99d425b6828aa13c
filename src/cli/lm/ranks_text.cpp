// Formats the tables and JSON rows of `strobe lm bench --ddp`.
#include "cli/lm/bench_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/terminal.h"
#include "cli/lm/keyed_table.h"
#include "core/counted.h"
#include "results/schema.h"

namespace strobe::cli {
namespace {

double tokens_of(const ParallelRow& row) {
  return static_cast<double>(row.cell->one.batch * row.cell->one.shape.context);
}

std::string name_of(const ParallelRow& row) { return row.exchange ? row.exchange->strategy.name : "one process"; }

const char* device_of(const ParallelRow& row) {
  return row.cell->one.execution.device == Device::cuda ? "cuda" : "cpu";
}

bool has_buckets(const ParallelRow& row) {
  return row.exchange && row.exchange->strategy.grouping == lm::Grouping::buckets;
}

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
      100 * *communication_share(*flat), 100 * *communication_share(*naive));
}

// Returns the time of a part in every step, in seconds.
Json steps_json(const lm::ParallelTimes& rank, double lm::ParallelStep::*part) {
  Json samples = Json::array();
  for (const lm::ParallelStep& step : rank.steps) samples.push_back(step.*part);
  return samples;
}

// Returns the mean times of each rank, and the times of each step under "samples".
Json ranks_json(const ParallelRow& row) {
  Json ranks = Json::array();
  for (const lm::ParallelTimes& times : row.ranks) {
    Json rank = Json::object({{"step_s", mean_of(times, &lm::ParallelStep::whole)}});
    Json samples = Json::object({{"step_s", steps_json(times, &lm::ParallelStep::whole)}});
    for (std::size_t i = 0; i < std::size(kParts); ++i) {
      const std::string name = std::string(kPartNames[i]) + "_s";
      rank.set(name, mean_of(times, kParts[i]));
      samples.set(name, steps_json(times, kParts[i]));
    }
    rank.set("optimizer_bytes", times.optimizer_bytes).set("samples", std::move(samples));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::string mean_milliseconds(const Json& summary) {
  return fmt::format("{:.2f} +-{:.2f}", 1e3 * summary.at("mean_s").as_number(),
                     1e3 * summary.at("stddev_s").as_number());
}

void begin_parallel_row(Json& json, const ParallelRow& row, int ranks) {
  const lm::BenchCase& one = row.cell->one;
  json.set("kind", "data parallel step")
      .set("strategy", name_of(row))
      .set("bucket_bytes", has_buckets(row) ? Json(row.exchange->bucket_bytes) : Json())
      .set("ranks", row.exchange ? ranks : 1);
  add_model(json, *row.cell);
  json.set("device", device_of(row))
      .set("threads_per_rank", one.execution.threads)
      .set("warmup", one.warmup)
      .set("clip", one.clip)
      .set("status", row.error.empty() ? "ok" : "oom");
  if (!row.error.empty()) json.set("reason", row.error);
}

Json rank_memory_json(const ParallelRow& row) {
  const lm::ParallelMemory memory = memory_of(row);
  return Json::object({{"after_init_bytes", memory.after_init},
                       {"before_update_bytes", memory.before_update},
                       {"after_step_bytes", memory.after_step}});
}

// The columns of times.
RowType<ParallelRow> parallel_row_type(const std::vector<ParallelRow>& rows, int ranks) {
  using Row = ParallelRow;
  RowType<Row> type{
      .begin = [=](Json& json, const Row& row) { begin_parallel_row(json, row, ranks); },
      .identity = {{"strategy", left("strategy")}, {"bucket_bytes", "bucket MB", number_text("{}", 1e-6)}},
      .figures = {
          {"step", "step ms", [](const Row& row) { return summary_json(slowest_steps(row)); }, mean_milliseconds}}};
  for (std::size_t i = 0; i < std::size(kParts); ++i) {
    type.figures.push_back({std::string("part_") + kPartNames[i], std::string(kPartNames[i]) + " ms",
                            [i](const Row& row) { return summary_json(part_of(row, kParts[i])); }, mean_milliseconds});
  }
  const auto per_second = [](double work, const Row& row) { return Json(work / slowest_steps(row).mean); };
  const Column<Row> rest[] = {
      {"communication_share", "comm %", [](const Row& row) { return json_if(communication_share(row)); },
       number_text("{:.1f}", 100)},
      {"samples_per_s", "samples/s",
       [=](const Row& row) { return per_second(static_cast<double>(row.cell->one.batch), row); },
       number_text("{:.1f}")},
      {"tokens_per_s", "", [=](const Row& row) { return per_second(tokens_of(row), row); }},
      {"speedup_over_one_process", "vs one", [&rows](const Row& row) { return json_if(speedup(row, rows)); },
       number_text("{:.2f}")},
      {"speedup_over_naive", "vs naive", [&rows](const Row& row) { return json_if(speedup_over_naive(row, rows)); },
       number_text("{:.2f}")},
      {"exposed_less_than_naive", "less exposed %", [&rows](const Row& row) { return json_if(reduction(row, rows)); },
       number_text("{:.0f}", 100)},
      {"seconds_per_million_tokens", "s/M tokens",
       [](const Row& row) { return Json(1e6 * slowest_steps(row).mean / tokens_of(row)); }, number_text("{:.2f}")},
      {"loss", "loss", [](const Row& row) { return Json(row.ranks[0].loss); }, number_text("{:.4f}")},
      {"skipped", "", [](const Row& row) { return Json(row.ranks[0].skipped); }},
      {"calls", "", [](const Row& row) { return Json(row.ranks[0].calls); }},
      {"buckets", "", [](const Row& row) { return Json(row.ranks[0].buckets); }},
      {"exchanged_bytes", "", [](const Row& row) { return Json(row.ranks[0].bytes); }},
      {"optimizer_bytes", "", [](const Row& row) { return Json(optimizer_bytes(row)); }},
      {"memory", "", rank_memory_json},
      {"by_rank", "", ranks_json}};
  type.figures.insert(type.figures.end(), std::begin(rest), std::end(rest));
  return type;
}

// The columns of calls, bytes and memory.
const RowColumn kExchangeColumns[] = {{"calls", "calls"},
                                      {"buckets", "buckets"},
                                      {"exchanged_bytes", "exchanged MB", number_text("{:.1f}", 1e-6)},
                                      {"optimizer_bytes", "optimizer MB", number_text("{:.1f}", 1e-6)},
                                      {"memory.after_init_bytes", "after init MB", number_text("{:.1f}", 1e-6)},
                                      {"memory.before_update_bytes", "before update MB", number_text("{:.1f}", 1e-6)},
                                      {"memory.after_step_bytes", "after step MB", number_text("{:.1f}", 1e-6)}};

std::string notes_of(const ParallelRow& row) {
  if (row.error.empty()) return skipped_note(row);
  return labelled_line(Style::caution,
                       "oom:", fmt::format("{}: {}", row.exchange ? title_of(*row.exchange) : name_of(row), row.error));
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

Json::Array parallel_rows_json(const std::vector<ParallelRow>& rows, int ranks) {
  const RowType<ParallelRow> type = parallel_row_type(rows, ranks);
  Json::Array written;
  for (const ParallelRow& row : rows) written.push_back(type.json(row));
  return written;
}

std::string parallel_tables(const std::vector<ParallelRow>& rows, std::span<const Json> written, int ranks) {
  const RowType<ParallelRow> type = parallel_row_type(rows, ranks);
  std::string text;
  for (std::size_t i = 0, end = 0; i < rows.size(); i = end) {
    std::string notes;
    for (; end < rows.size() && rows[end].cell == rows[i].cell; ++end) notes += notes_of(rows[end]);
    text += fmt::format("{}, {}, {}\n", title_of(*rows[i].cell), counted(ranks, "rank"), device_of(rows[i]));
    std::vector<Json> of_cell(written.begin() + static_cast<std::ptrdiff_t>(i),
                              written.begin() + static_cast<std::ptrdiff_t>(end));
    text += keyed_text(type.table(of_cell), type.identity.size()) + notes + flat_note(rows[i], rows) + "\n";
    std::erase_if(of_cell, [](const Json& row) { return row.at("status").as_string() != "ok"; });
    if (!of_cell.empty())
      text += keyed_text(table_of_rows(type.identity, kExchangeColumns, of_cell), type.identity.size()) + "\n";
  }
  return text;
}

}  // namespace strobe::cli
