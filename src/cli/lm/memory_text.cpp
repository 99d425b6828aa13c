// Formats the tables of `strobe lm memory`.
#include "cli/lm/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "app/terminal.h"
#include "cli/lm/keyed_table.h"
#include "core/counted.h"
#include "core/units.h"
#include "results/schema.h"

namespace strobe::cli {
namespace {

using lm::Category;

constexpr std::size_t kLargest = 6;  // tensors listed for each pass

// Column titles of the memory categories (lm::Category), in their order.
constexpr const char* kCategoryTitles[lm::kCategories] = {"parameters", "gradients", "optimizer", "saved", "transient",
                                                          "scores",     "workspace", "data",      "idle"};

std::string mib(std::size_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

const std::function<std::string(const Json&)> kMibText = number_text("{:.2f}", 1 / kMiB);

// Returns a tensor's name with * instead of the layer's number: "layers.*.attention.qkv".
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
  lm::Lifetime first;
  int count = 0;
};

// Returns the largest allocations and tensors, grouped over layers. The allocation that holds all activations is
// replaced by the tensors in it.
std::vector<Group> largest(const lm::MemoryTimeline& timeline) {
  std::map<std::string, Group> groups;
  const auto add = [&](const lm::Lifetime& lifetime) {
    Group& group = groups[of_any_layer(lifetime.name)];
    if (++group.count == 1) group.first = lifetime;
  };
  for (const lm::Lifetime& lifetime : timeline.allocations) {
    if (lifetime.category != Category::idle) add(lifetime);
  }
  for (const lm::Lifetime& lifetime : timeline.tensors) add(lifetime);
  std::vector<Group> sorted;
  for (const auto& [name, group] : groups) sorted.push_back(group);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Group& a, const Group& b) { return a.first.bytes > b.first.bytes; });
  sorted.resize(std::min(sorted.size(), kLargest));
  return sorted;
}

std::string largest_text(const MemoryRow& row) {
  Table table{.columns = {left("tensor"), "MiB", "times", left("type"), left("category"), left("comes from")}};
  for (const Group& group : largest(row.figures->timeline)) {
    const std::string& type = group.first.type;
    table.cells.push_back({of_any_layer(group.first.name), mib(group.first.bytes), std::to_string(group.count),
                           type.empty() ? "-" : type, kCategoryTitles[static_cast<std::size_t>(group.first.category)],
                           of_any_layer(operation_of(row.figures->timeline, group.first.from))});
  }
  return "\nlargest of " + title_of(row) + "\n" + table.text();
}

const auto kPasses = {&MemoryCell::forward, &MemoryCell::step};

// Returns the columns that identify a cell, and the pass if `has_pass`.
std::vector<RowColumn> cell_columns(bool has_pass) {
  std::vector<RowColumn> columns{{"model", left("size")},
                                 {"context", "context"},
                                 {"batch", "batch"},
                                 {"precision", left("precision")},
                                 {"recompute", left("recompute")}};
  if (has_pass) columns.push_back({"pass", left("pass")});
  return columns;
}

// Returns the peaks by category, in MiB.
std::string category_table(std::span<const Json> rows) {
  std::vector<Json> measured;
  for (const Json& row : rows) {
    if (row.at("status").as_string() == "ok") measured.push_back(row);
  }
  if (measured.empty()) return "";
  std::vector<RowColumn> figures;
  for (std::size_t i = 0; i < lm::kCategories; ++i) {
    const std::string name = name_of(static_cast<Category>(i));
    figures.push_back({"peak_by_category_bytes." + name, kCategoryTitles[i], kMibText});
  }
  figures.push_back({"most_in_use_bytes", "in use", kMibText});
  figures.push_back({"driver_bytes", "driver", kMibText});
  const std::vector<RowColumn> columns = cell_columns(true);
  return "\n" + keyed_text(table_of_rows(columns, figures, measured), columns.size()) +
         fitting_line("MiB at the peak; idle: activation memory without a live tensor; in use: peak without idle");
}

// Returns the step of the same model and precision without recomputation; null if it was not measured.
const MemoryRow* same_without_recompute(const MemoryCell& cell, const std::vector<MemoryCell>& cells) {
  const auto key = [](const MemoryRow& of) {
    const lm::BenchCase& one = of.cell.one;
    return std::tuple(of.cell.size, one.shape.context, one.batch, one.precision);
  };
  for (const MemoryCell& other : cells) {
    if (other.step.cell.one.recompute == lm::Recompute::none && key(other.step) == key(cell.step)) return &other.step;
  }
  return nullptr;
}

std::optional<std::size_t> of_timeline(const MemoryRow& row, std::size_t (lm::MemoryTimeline::*figure)() const) {
  if (!row.figures) return {};
  return (row.figures->timeline.*figure)();
}

}  // namespace

const char* name_of_pass(const MemoryRow& row) {
  return row.cell.one.pass == lm::BenchPass::forward ? "forward" : "step";
}

std::string title_of(const MemoryRow& row) { return fmt::format("{}, {}", title_of(row.cell), name_of_pass(row)); }

const lm::ByCategory& at_peak(const lm::MemoryTimeline& timeline) { return timeline.moments.at(timeline.peak_at()); }

std::string peak_table(const std::vector<MemoryCell>& cells, std::span<const Json> table) {
  const RowColumn figures[] = {{"forward_peak_bytes", "forward", kMibText, "oom"},
                               {"forward_predicted_bytes", "predicted", kMibText},
                               {"step_peak_bytes", "step", kMibText, "oom"},
                               {"step_predicted_bytes", "predicted", kMibText},
                               {"residual_tensor_bytes", "residual", kMibText}};
  std::string notes;
  for (const MemoryCell& cell : cells) {
    for (const auto pass : kPasses) {
      const MemoryRow& row = cell.*pass;
      if (!row.figures) notes += labelled_line(Style::caution, "oom:", fmt::format("{}: {}", title_of(row), row.error));
    }
  }
  const lm::BenchCase& one = cells.front().step.cell.one;
  const std::vector<RowColumn> columns = cell_columns(false);
  return keyed_text(table_of_rows(columns, figures, table), columns.size()) + notes +
         fitting_line(fmt::format("peak MiB on {}, attention {}; residual: one tensor of the residual stream",
                                  one.execution.device == Device::cuda ? "cuda" : "cpu",
                                  one.attention.empty() ? "auto" : one.attention));
}

std::string memory_details(const std::vector<MemoryCell>& cells, std::span<const Json> rows) {
  std::string text = category_table(rows);
  for (const MemoryCell& cell : cells) {
    for (const auto pass : kPasses) {
      if ((cell.*pass).figures) text += largest_text(cell.*pass);
    }
  }
  return text;
}

std::string recompute_table(const std::vector<MemoryCell>& cells) {
  Table table{.columns = {left("size"), "context", "batch", left("precision"), left("recompute"), "peak MiB", "vs none",
                          "saved MiB", "vs none", "step ms", "vs none"}};
  std::string notes;
  for (const MemoryCell& cell : cells) {
    const MemoryRow& row = cell.step;
    const lm::BenchCase& one = row.cell.one;
    if (row.skipped > 0) {
      notes += fmt::format("skipped: {}: {} of {} had a gradient that overflowed and updated nothing\n",
                           title_of(row.cell), row.skipped, counted(one.steps, "step"));
    }
    std::vector<std::string> texts = {model_text(row.cell), std::to_string(one.shape.context),
                                      std::to_string(one.batch), name_of(one.precision), name_of(one.recompute)};
    const MemoryRow* const none = same_without_recompute(cell, cells);
    const auto add = [&](auto figure, auto text) {
      const auto own = figure(row);
      const auto other = none ? figure(*none) : std::nullopt;
      texts.push_back(own ? text(*own) : "-");
      texts.push_back(own && other ? fmt::format("{:.2f}", static_cast<double>(*own) / static_cast<double>(*other))
                                   : "-");
    };
    if (row.figures) {
      add([](const MemoryRow& of) { return of_timeline(of, &lm::MemoryTimeline::peak); }, mib);
      add([](const MemoryRow& of) { return of_timeline(of, &lm::MemoryTimeline::most_saved); }, mib);
      add([](const MemoryRow& of) { return of.seconds; }, [](double s) { return fmt::format("{:.1f}", 1e3 * s); });
    } else {
      texts.emplace_back("oom");
    }
    table.cells.push_back(std::move(texts));
  }
  return table.text() + notes;
}

}  // namespace strobe::cli
