// Implements `strobe lm memory`: measures the memory of the forward pass and of the step of each cell, prints tables
// and writes JSON and an HTML page.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/help.h"
#include "app/terminal.h"
#include "cli/lm/bench_options.h"
#include "cli/lm/memory_text.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/file_set.h"
#include "core/json.h"
#include "core/short_number.h"
#include "lm/plan/device_memory.h"
#include "measure/environment.h"
#include "results/schema.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmMemoryIntroduction =
    "usage: strobe lm memory [--flag value ...]\n\n"
    "Peak memory of a language model's forward pass and of its training step, counted by the allocator and predicted\n"
    "from the shape, next to the size of one residual-stream tensor: one row per size, context and precision.\n"
    "A forward pass holds no gradients, no optimizer state and no activations saved for backward.\n"
    "Below the table, each peak is split into categories, and the largest tensors are listed. The page shows every "
    "tensor from\n"
    "the operation that writes it to the last operation that reads it.\n"
    "With several --recompute values, compares the memory that each saves and the time of its step.\n"
    "A pass that does not fit the memory is `oom`, with its predicted peak; if none fits, nothing is written and the "
    "exit code is "
    "3.\n\n"
    "  strobe lm memory --size small --context 128,256,512 --precision fp32,bf16\n"
    "  strobe lm memory --size tiny --attention standard --recompute none,attention,block\n\n";

enum class Timing { none, of_steps };

MemoryRow measured(LmBenchCell cell, lm::BenchPass pass, Timing timing) {
  cell.one.pass = pass;
  MemoryRow row{.cell = cell, .predicted = lm::predicted_bytes(cell.one)};
  const auto measure = [&] {
    row.figures = lm::measure_memory(cell.one);
    if (timing == Timing::of_steps && pass == lm::BenchPass::step) {
      const lm::BenchTimes times = lm::time_step(cell.one);
      row.seconds = times.whole.seconds.min;
      row.skipped = times.skipped;
    }
  };
  row.error = oom_of(title_of(row), measure).value_or("");
  if (!row.error.empty()) row.figures.reset();
  return row;
}

bool fits(const MemoryCell& cell) { return cell.forward.figures || cell.step.figures; }

std::string page_of(const std::vector<MemoryCell>& cells) {
  std::vector<report::MemoryMap> maps;
  for (const MemoryCell& cell : cells) {
    for (const MemoryRow* const row : {&cell.forward, &cell.step}) {
      if (row->figures) maps.push_back(memory_map(*row));
    }
  }
  return report::memory_map_page(maps);
}

using lm::Category;

Json by_category_json(const lm::ByCategory& bytes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i) json.set(name_of(static_cast<Category>(i)), bytes[i]);
  return json;
}

Json lives_json(const std::vector<lm::Lifetime>& lives) {
  Json list = Json::array();
  for (const lm::Lifetime& lifetime : lives) {
    list.push_back(Json::object({{"name", lifetime.name},
                                 {"category", name_of(lifetime.category)},
                                 {"dtype", lifetime.type.empty() ? Json() : Json(lifetime.type)},
                                 {"bytes", lifetime.bytes},
                                 {"at", lifetime.at},
                                 {"from", lifetime.from},
                                 {"to", lifetime.to}}));
  }
  return list;
}

Json row_json(const MemoryRow& row) {
  const lm::BenchCase& one = row.cell.one;
  Json json = Json::object({{kVersionKey, kRowVersion}});
  add_model(json, row.cell);
  json.set("pass", name_of_pass(row))
      .set("device", one.execution.device == Device::cuda ? "cuda" : "cpu")
      .set("attention", one.attention.empty() ? "auto" : one.attention)
      .set("residual_tensor_bytes", lm::residual_bytes(one))
      .set("predicted_bytes", row.predicted)
      .set("status", row.figures ? "ok" : "oom");
  if (!row.figures) return json.set("reason", row.error);
  const lm::MemoryTimeline& timeline = row.figures->timeline;
  json.set("peak_bytes", timeline.peak());
  json.set("peak_operation", timeline.peak_at());
  json.set("peak_by_category_bytes", by_category_json(at_peak(timeline)));
  json.set("most_in_use_bytes", timeline.most_in_use());
  json.set("most_saved_bytes", timeline.most_saved());
  if (row.seconds) json.set("step_min_s", *row.seconds).set("skipped", row.skipped);
  json.set("counted_bytes", row.figures->counted);
  json.set("driver_bytes", row.figures->driver ? Json(*row.figures->driver) : Json());
  Json operations = Json::array(), moments = Json::array();
  for (const std::string& operation : timeline.operations) operations.push_back(operation);
  for (const lm::ByCategory& moment : timeline.moments) {
    Json bytes = Json::array();
    for (const std::size_t one_category : moment) bytes.push_back(one_category);
    moments.push_back(bytes);
  }
  json.set("operations", operations);
  json.set("allocations", lives_json(timeline.allocations));
  json.set("tensors_of_the_run", lives_json(timeline.tensors));
  return json.set("held_by_operation_and_category_bytes", moments);
}

// Returns null if the pass did not fit.
Json peak_json(const MemoryRow& row) { return row.figures ? Json(row.figures->timeline.peak()) : Json(); }

Json table_json(const std::vector<MemoryCell>& cells) {
  Json table = Json::array();
  for (const MemoryCell& cell : cells) {
    const lm::BenchCase& one = cell.step.cell.one;
    table.push_back(Json::object({{"model", model_text(cell.step.cell)},
                                  {"size", cell.step.cell.size},
                                  {"context", one.shape.context},
                                  {"batch", one.batch},
                                  {"precision", name_of(one.precision)},
                                  {"recompute", name_of(one.recompute)},
                                  {"forward_peak_bytes", peak_json(cell.forward)},
                                  {"forward_predicted_bytes", cell.forward.predicted},
                                  {"step_peak_bytes", peak_json(cell.step)},
                                  {"step_predicted_bytes", cell.step.predicted},
                                  {"residual_tensor_bytes", lm::residual_bytes(one)}}));
  }
  return table;
}

}  // namespace

int run_lm_memory(Arguments arguments) {
  LmBenchOptions options = default_lm_bench_options();
  options.warmups = {1};  // one warm-up step and three timed ones are enough to compare recomputation modes
  options.steps = 3;
  std::string output = "lm_memory_result.json", page = "lm_memory.html", svg;
  OptionTable table;
  add_lm_cell_options(table, options);
  table.begin_group("output");
  table.add(make_file_option("output", "JSON; default lm_memory_result.json", output));
  table.add(make_file_option("page", "page of all cells; default lm_memory.html", page));
  table.add(make_file_option("svg", "picture of the last cell's step only, as SVG; default none", svg));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kLmMemoryIntroduction + table.help());
    return kFine;
  }
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  check_apart("--page", page, "--output", output);
  check_apart("--svg", svg, "--output", output);
  check_apart("--svg", svg, "--page", page);
  check_default(output, "lm_memory_result.json", "\"environment\"");
  check_default(page, "lm_memory.html", "<title>Strobe");
  const AtomicFile trial(output, "--output"), page_trial(page, "--page");  // throw before measuring
  std::optional<AtomicFile> svg_trial;
  if (!svg.empty()) svg_trial.emplace(svg, "--svg");
  set_signal_message("lm memory: ended by a signal; nothing was written");
  const bool compares = options.recomputes.size() > 1;
  const Timing timing = compares ? Timing::of_steps : Timing::none;
  std::vector<MemoryCell> measured_cells;
  for (const LmBenchCell& cell : cells) {
    measured_cells.push_back({.forward = measured(cell, lm::BenchPass::forward, timing),
                              .step = measured(cell, lm::BenchPass::step, timing)});
  }
  const Json document = memory_document(measured_cells);
  print(peak_table(measured_cells, document.at("table").as_array()) +
        memory_details(measured_cells, document.at("rows").as_array()));
  if (std::none_of(measured_cells.begin(), measured_cells.end(), fits)) {
    return complain_that_none_fits("lm memory", output + " and " + page);
  }
  if (compares) print("\n" + recompute_table(measured_cells));
  set_signal_message("lm memory: ended by a signal");  // the output may already be written
  FileSet files("lm memory:");
  files.add(output, document.dump(1) + "\n");
  files.add(page, page_of(measured_cells));
  const MemoryRow& last = measured_cells.back().step;
  const bool draws = !svg.empty() && last.figures;
  if (draws) files.add(svg, report::memory_map_svg(memory_map(last)));
  files.commit();
  print(fmt::format("written: {}, {}{}\n", output, page, draws ? ", " + svg : ""));
  return kFine;
}

Json memory_document(const std::vector<MemoryCell>& cells) {
  Json items = Json::array(), categories = Json::array();
  for (const MemoryCell& cell : cells) {
    for (const MemoryRow* const row : {&cell.forward, &cell.step}) items.push_back(row_json(*row));
  }
  for (std::size_t i = 0; i < lm::kCategories; ++i) categories.push_back(name_of(static_cast<Category>(i)));
  return Json::object(
      {{"environment", environment_json()}, {"table", table_json(cells)}, {"categories", categories}, {"rows", items}});
}

report::MemoryMap memory_map(const MemoryRow& row) {
  const lm::MemoryTimeline& timeline = row.figures->timeline;
  report::MemoryMap map;
  map.title = title_of(row);
  map.caption =
      fmt::format("peak held {}, peak in use {}, one tensor of the residual stream {}", bytes_text(timeline.peak()),
                  bytes_text(timeline.most_in_use()), bytes_text(lm::residual_bytes(row.cell.one)));
  map.operations = timeline.operations;
  map.bytes = timeline.peak();
  map.peak_at = timeline.peak_at();
  for (std::size_t i = 0; i + 1 < lm::kCategories; ++i) map.categories.emplace_back(name_of(static_cast<Category>(i)));
  static constexpr const char* kPhases[] = {"forward", "backward", "update"};
  for (std::size_t i = 0; i < timeline.phases.size(); ++i) {
    if (i > 0 && timeline.phases[i] == timeline.phases[i - 1]) continue;
    map.parts.push_back({kPhases[static_cast<int>(timeline.phases[i])], static_cast<int>(i)});
  }
  const auto add = [&](const lm::Lifetime& lifetime, std::size_t above) {
    if (lifetime.to < 0) return;  // freed before the first operation
    map.blocks.push_back(
        {.name = lifetime.type.empty() ? lifetime.name : fmt::format("{} ({})", lifetime.name, lifetime.type),
         .category = static_cast<std::size_t>(lifetime.category),
         .at = above + lifetime.at,
         .bytes = lifetime.bytes,
         .from = std::max(0, lifetime.from),
         .to = lifetime.to});
  };
  for (const lm::Lifetime& lifetime : timeline.allocations) {
    if (lifetime.category != Category::idle) add(lifetime, 0);
  }
  for (const lm::Lifetime& lifetime : timeline.tensors) add(lifetime, timeline.arena_at);
  return map;
}

}  // namespace strobe::cli
