// Formats the tables of `strobe lm memory`.
#include "cli/lm/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/counted.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

using lm::Category;

constexpr std::size_t kLargest = 6;  // tensors listed for each pass

// Column titles of the categories.
constexpr const char* kCategoryTitles[lm::kCategories] = {"parameters", "gradients", "optimizer", "saved", "passing",
                                                          "scores",     "workspace", "data",      "idle"};

std::string mib(std::size_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

// Replaces the number of the layer: "layers.*.attention.qkv".
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

// The columns that identify a cell. Batch and recompute occur only if they differ between cells.
class CellColumns {
 public:
  explicit CellColumns(const std::vector<MemoryCell>& cells) {
    const auto differ = [&](auto value) {
      return std::any_of(cells.begin(), cells.end(), [&](const MemoryCell& cell) {
        return value(cell.step.cell.one) != value(cells.front().step.cell.one);
      });
    };
    has_batch_ = differ([](const lm::BenchCase& one) { return one.batch; });
    has_recompute_ = differ([](const lm::BenchCase& one) { return one.recompute; });
  }

  bool has_batch() const { return has_batch_; }
  // Returns an empty table with these columns, then `more`.
  Table table(std::initializer_list<Heading> more) const {
    Table table{.columns = {left("size"), "context"}};
    if (has_batch_) table.columns.emplace_back("batch");
    table.columns.push_back(left("precision"));
    if (has_recompute_) table.columns.push_back(left("recompute"));
    table.columns.insert(table.columns.end(), more);
    return table;
  }
  std::vector<std::string> of(const LmBenchCell& cell) const {
    const lm::BenchCase& one = cell.one;
    std::vector<std::string> texts = {model_text(cell), std::to_string(one.shape.context)};
    if (has_batch_) texts.push_back(std::to_string(one.batch));
    texts.emplace_back(name_of(one.precision));
    if (has_recompute_) texts.emplace_back(name_of(one.recompute));
    return texts;
  }

 private:
  bool has_batch_ = false, has_recompute_ = false;
};

// Returns the peaks by category, in MiB.
std::string category_table(const std::vector<MemoryCell>& cells) {
  const CellColumns columns(cells);
  Table table = columns.table({left("pass")});
  table.columns.insert(table.columns.end(), std::begin(kCategoryTitles), std::end(kCategoryTitles));
  table.columns.insert(table.columns.end(), {"in use", "driver"});
  for (const MemoryCell& cell : cells) {
    for (const auto pass : kPasses) {
      const MemoryRow& row = cell.*pass;
      if (!row.figures) continue;
      std::vector<std::string> texts = columns.of(row.cell);
      texts.emplace_back(name_of_pass(row));
      for (const std::size_t bytes : at_peak(row.figures->timeline)) texts.push_back(mib(bytes));
      texts.push_back(mib(row.figures->timeline.most_in_use()));
      texts.push_back(row.figures->driver ? mib(*row.figures->driver) : "-");
      table.cells.push_back(std::move(texts));
    }
  }
  if (table.cells.empty()) return "";
  return "\n" + table.text() +
         "MiB at the peak; idle: activation memory without a live tensor; in use: peak without idle\n";
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

std::string peak_table(const std::vector<MemoryCell>& cells) {
  const CellColumns columns(cells);
  Table table = columns.table({"forward", "predicted", "step", "predicted", "residual"});
  std::string notes;
  for (const MemoryCell& cell : cells) {
    std::vector<std::string> texts = columns.of(cell.step.cell);
    for (const auto pass : kPasses) {
      const MemoryRow& row = cell.*pass;
      texts.push_back(row.figures ? mib(row.figures->timeline.peak()) : "oom");
      texts.push_back(mib(row.predicted));
      if (!row.figures) notes += fmt::format("oom: {}: {}\n", title_of(row), row.error);
    }
    texts.push_back(mib(lm::residual_bytes(cell.step.cell.one)));
    table.cells.push_back(std::move(texts));
  }
  const lm::BenchCase& one = cells.front().step.cell.one;
  return table.text() + notes +
         fmt::format("peak MiB on {}{}, attention {}; residual: one tensor of the residual stream\n",
                     one.execution.device == Device::cuda ? "cuda" : "cpu",
                     columns.has_batch() ? "" : fmt::format(", batch {}", one.batch),
                     one.attention.empty() ? "auto" : one.attention);
}

std::string memory_details(const std::vector<MemoryCell>& cells) {
  std::string text = category_table(cells);
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
