#include "cli/lm_memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/counted.h"
#include "core/json.h"
#include "core/text_table.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

using lm::Category;

constexpr std::size_t kLargest = 6;  // told of each row

// Short ones, for tables.
constexpr const char* kCategoryTitles[lm::kCategories] = {"parameters", "gradients", "optimizer", "saved", "passing",
                                                          "scores",     "workspace", "data",      "idle"};

std::string mib(std::size_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

const char* name_of_pass(const MemoryRow& row) {
  return row.cell.one.pass == lm::BenchPass::forward ? "forward" : "step";
}

std::string title_of(const MemoryRow& row) { return fmt::format("{}, {}", title_of(row.cell), name_of_pass(row)); }

const lm::ByCategory& at_peak(const lm::MemoryTimeline& timeline) { return timeline.moments.at(timeline.peak_at()); }

// "layers.*.attention.qkv": the same tensor of every layer.
std::string of_any_layer(const std::string& name) {
  const std::size_t at = name.find("layers.");
  if (at == std::string::npos) return name;
  const std::size_t digits = at + 7, end = name.find_first_not_of("0123456789", digits);
  return name.substr(0, digits) + "*" + (end == std::string::npos ? "" : name.substr(end));
}

std::string operation_of(const lm::MemoryTimeline& timeline, int at) {
  return at < 0 ? "before the step" : timeline.operations.at(static_cast<std::size_t>(at));
}

struct Group {
  lm::Life first;
  int count = 0;
};

// Allocations, and in place of the run the tensors in it; the largest first.
std::vector<Group> largest(const lm::MemoryTimeline& timeline) {
  std::map<std::string, Group> groups;
  const auto add = [&](const lm::Life& life) {
    Group& group = groups[of_any_layer(life.name)];
    if (++group.count == 1) group.first = life;
  };
  for (const lm::Life& life : timeline.allocations) {
    if (life.category != Category::idle) add(life);
  }
  for (const lm::Life& life : timeline.tensors) add(life);
  std::vector<Group> sorted;
  for (const auto& [name, group] : groups) sorted.push_back(group);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Group& a, const Group& b) { return a.first.bytes > b.first.bytes; });
  sorted.resize(std::min(sorted.size(), kLargest));
  return sorted;
}

std::string largest_text(const MemoryRow& row) {
  TextTable table;
  table.add_column("tensor", TextTable::Align::left);
  table.add_column("MiB");
  table.add_column("times");
  table.add_column("type", TextTable::Align::left);
  table.add_column("category", TextTable::Align::left);
  table.add_column("comes from", TextTable::Align::left);
  for (const Group& group : largest(row.figures->timeline)) {
    const std::string& type = group.first.type;
    table.add_row({of_any_layer(group.first.name), mib(group.first.bytes), std::to_string(group.count),
                   type.empty() ? "-" : type, kCategoryTitles[static_cast<std::size_t>(group.first.category)],
                   of_any_layer(operation_of(row.figures->timeline, group.first.from))});
  }
  return "\nlargest of " + title_of(row) + "\n" + table.text();
}

Json by_category_json(const lm::ByCategory& bytes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i) json.set(name_of(static_cast<Category>(i)), bytes[i]);
  return json;
}

Json lives_json(const std::vector<lm::Life>& lives) {
  Json list = Json::array();
  for (const lm::Life& life : lives) {
    list.push_back(Json::object({{"name", life.name},
                                 {"category", name_of(life.category)},
                                 {"dtype", life.type.empty() ? Json() : Json(life.type)},
                                 {"bytes", life.bytes},
                                 {"at", life.at},
                                 {"from", life.from},
                                 {"to", life.to}}));
  }
  return list;
}

Json row_json(const MemoryRow& row) {
  const lm::BenchCase& one = row.cell.one;
  Json json = Json::object();
  add_model(json, row.cell);
  json.set("pass", name_of_pass(row))
      .set("device", one.place.device == Device::cuda ? "cuda" : "cpu")
      .set("attention", one.attention.empty() ? "auto" : one.attention)
      .set("residual_tensor(B)", lm::residual_bytes(one))
      .set("status", row.figures ? "ok" : "oom");
  if (!row.figures) return json.set("error", row.error);
  const lm::MemoryTimeline& timeline = row.figures->timeline;
  json.set("peak(B)", timeline.peak());
  json.set("peak_operation", timeline.peak_at());
  json.set("peak_by_category(B)", by_category_json(at_peak(timeline)));
  json.set("most_in_use(B)", timeline.most_in_use());
  json.set("most_saved(B)", timeline.most_saved());
  if (row.seconds) json.set("step_min(ms)", 1e3 * *row.seconds).set("skipped", row.skipped);
  json.set("predicted(B)", row.figures->predicted);
  json.set("counted(B)", row.figures->counted);
  json.set("driver(B)", row.figures->driver ? Json(*row.figures->driver) : Json());
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
  return json.set("held_by_operation_and_category(B)", moments);
}

// The step of the same model and precision that keeps everything; null where it was not asked for.
const MemoryRow* same_without_recompute(const MemoryRow& row, const std::vector<MemoryRow>& rows) {
  const auto key = [](const MemoryRow& of) {
    const lm::BenchCase& one = of.cell.one;
    return std::tuple(of.cell.size, one.shape.context, one.batch, one.precision, one.pass);
  };
  for (const MemoryRow& other : rows) {
    if (other.cell.one.recompute == lm::Recompute::none && key(other) == key(row)) return &other;
  }
  return nullptr;
}

// Of a table with a row for each pass.
void add_row_columns(TextTable& table) {
  table.add_column("size", TextTable::Align::left);
  table.add_column("context");
  for (const char* title : {"precision", "recompute", "pass"}) table.add_column(title, TextTable::Align::left);
}

std::vector<std::string> row_columns(const MemoryRow& row) {
  const lm::BenchCase& one = row.cell.one;
  return {model_text(row.cell), std::to_string(one.shape.context), name_of(one.precision), name_of(one.recompute),
          name_of_pass(row)};
}

// What the peak is made of, in MiB.
std::string category_table(const std::vector<MemoryRow>& rows) {
  TextTable table;
  add_row_columns(table);
  for (const char* title : kCategoryTitles) table.add_column(title);
  for (const MemoryRow& row : rows) {
    if (!row.figures) continue;
    std::vector<std::string> cells = row_columns(row);
    for (const std::size_t bytes : at_peak(row.figures->timeline)) cells.push_back(mib(bytes));
    table.add_row(std::move(cells));
  }
  if (table.empty()) return "";
  return "\n" + table.text() +
         "MiB at the peak; idle: of the run of activations and gradients, where no tensor lives then\n";
}

std::optional<std::size_t> of_timeline(const MemoryRow& row, std::size_t (lm::MemoryTimeline::*figure)() const) {
  if (!row.figures) return {};
  return (row.figures->timeline.*figure)();
}

}  // namespace

std::string memory_tables(const std::vector<MemoryRow>& rows) {
  TextTable table;
  add_row_columns(table);
  for (const char* title : {"peak MiB", "predicted", "driver", "in use", "residual"}) table.add_column(title);
  std::string notes, details;
  for (const MemoryRow& row : rows) {
    std::vector<std::string> cells = row_columns(row);
    if (row.figures) {
      const lm::MemoryTimeline& timeline = row.figures->timeline;
      cells.push_back(mib(timeline.peak()));
      cells.push_back(mib(row.figures->predicted));
      cells.push_back(row.figures->driver ? mib(*row.figures->driver) : "-");
      cells.push_back(mib(timeline.most_in_use()));
      cells.push_back(mib(lm::residual_bytes(row.cell.one)));
      details += largest_text(row);
    } else {
      cells.emplace_back("oom");
      notes += fmt::format("oom: {}: {}\n", title_of(row), row.error);
    }
    table.add_row(std::move(cells));
  }
  return table.text() + notes +
         "in use: most at any moment, without what is idle; residual: one tensor of the residual stream\n" +
         category_table(rows) + details;
}

std::string recompute_table(const std::vector<MemoryRow>& rows) {
  TextTable table;
  table.add_column("size", TextTable::Align::left);
  table.add_column("context");
  table.add_column("batch");
  for (const char* title : {"precision", "recompute"}) table.add_column(title, TextTable::Align::left);
  for (const char* title : {"peak MiB", "of none", "most saved", "of none", "step ms", "of none"}) {
    table.add_column(title);
  }
  std::string notes;
  for (const MemoryRow& row : rows) {
    const lm::BenchCase& one = row.cell.one;
    if (one.pass != lm::BenchPass::step) continue;
    if (row.skipped > 0) {
      notes += fmt::format("skipped: {}: {} of {}, whose gradient overflowed: they update nothing\n",
                           title_of(row.cell), row.skipped, counted(one.steps, "step"));
    }
    std::vector<std::string> cells = {model_text(row.cell), std::to_string(one.shape.context),
                                      std::to_string(one.batch), name_of(one.precision), name_of(one.recompute)};
    const MemoryRow* const none = same_without_recompute(row, rows);
    const auto add = [&](auto figure, auto text) {
      const auto own = figure(row);
      const auto other = none ? figure(*none) : std::nullopt;
      cells.push_back(own ? text(*own) : "-");
      cells.push_back(own && other ? fmt::format("{:.2f}", static_cast<double>(*own) / static_cast<double>(*other))
                                   : "-");
    };
    if (row.figures) {
      add([](const MemoryRow& of) { return of_timeline(of, &lm::MemoryTimeline::peak); }, mib);
      add([](const MemoryRow& of) { return of_timeline(of, &lm::MemoryTimeline::most_saved); }, mib);
      add([](const MemoryRow& of) { return of.seconds; }, [](double s) { return fmt::format("{:.1f}", 1e3 * s); });
    } else {
      cells.emplace_back("oom");
    }
    table.add_row(std::move(cells));
  }
  return table.text() + notes;
}

std::string memory_document(const std::vector<MemoryRow>& rows) {
  Json items = Json::array(), categories = Json::array();
  for (const MemoryRow& row : rows) items.push_back(row_json(row));
  for (std::size_t i = 0; i < lm::kCategories; ++i) categories.push_back(name_of(static_cast<Category>(i)));
  return Json::object({{"environment", environment_json()}, {"categories", categories}, {"rows", items}}).dump(1) +
         "\n";
}

report::MemoryMap memory_map(const MemoryRow& row) {
  const lm::MemoryTimeline& timeline = row.figures->timeline;
  report::MemoryMap map;
  map.title = title_of(row);
  map.caption = fmt::format("most held {}, most in use {}, one tensor of the residual stream {}",
                            report::bytes_text(timeline.peak()), report::bytes_text(timeline.most_in_use()),
                            report::bytes_text(lm::residual_bytes(row.cell.one)));
  map.operations = timeline.operations;
  map.bytes = timeline.peak();
  map.peak_at = timeline.peak_at();
  for (std::size_t i = 0; i + 1 < lm::kCategories; ++i) map.categories.emplace_back(name_of(static_cast<Category>(i)));
  static constexpr const char* kPhases[] = {"forward", "backward", "update"};
  for (std::size_t i = 0; i < timeline.phases.size(); ++i) {
    if (i > 0 && timeline.phases[i] == timeline.phases[i - 1]) continue;
    map.parts.push_back({kPhases[static_cast<int>(timeline.phases[i])], static_cast<int>(i)});
  }
  const auto add = [&](const lm::Life& life, std::size_t above) {
    if (life.to < 0) return;  // given back before the first operation
    map.blocks.push_back({.name = life.type.empty() ? life.name : fmt::format("{} ({})", life.name, life.type),
                          .category = static_cast<std::size_t>(life.category),
                          .at = above + life.at,
                          .bytes = life.bytes,
                          .from = std::max(0, life.from),
                          .to = life.to});
  };
  for (const lm::Life& life : timeline.allocations) {
    if (life.category != Category::idle) add(life, 0);
  }
  for (const lm::Life& life : timeline.tensors) add(life, timeline.run_at);
  return map;
}

}  // namespace strobe::cli
