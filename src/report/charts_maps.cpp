// Creates heat maps. Columns are sequence lengths, rows are combinations of the other sizes, and each cell is a field.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "core/short_number.h"
#include "report/charts.h"

namespace strobe::report {
namespace {

struct StatusColor {
  const char* status;
  const char* color;
};
constexpr StatusColor kStatusColors[] = {{"ok", "#9fd8b4"},    {"oom", "#f4a58a"},     {"unsupported", "#d5d5d5"},
                                         {"wrong", "#e58cc8"}, {"timeout", "#f3d27a"}, {"crashed", "#ee8888"}};

// Returns a colour: white for ratio 1, green above, orange below; saturated at a factor of 8.
std::string ratio_color(double ratio) {
  const double strength = std::clamp(std::log2(ratio) / 3, -1.0, 1.0);
  const std::array<double, 3> end = strength > 0 ? std::array{92., 190., 140.} : std::array{245., 150., 95.};
  std::string text = "#";
  for (const double channel : end) {
    text += fmt::format("{:02x}", static_cast<int>(250 + (channel - 250) * std::fabs(strength)));
  }
  return text;
}

std::string row_name(const Config& config) {
  std::string text = fmt::format("B {}, {} x {}", config.batch, config.heads, config.head_dim);
  if (config.kv_heads != config.heads) text += fmt::format(" / {} KV", config.kv_heads);
  if (config.seqlen_k != config.seqlen_q) text += fmt::format(", {} keys", config.seqlen_k);
  return config.rest.empty() ? text : text + ", " + config.rest;
}

// The axes of a map and the position of each cell on them.
class MapAxes {
 public:
  explicit MapAxes(std::span<const Cell* const> cells) {
    for (const Cell* cell : cells) columns_.insert(cell->config.seqlen_q);
    std::map<std::array<std::int64_t, 4>, std::set<std::string>> rows;
    for (const Cell* cell : cells) {
      const Config& config = cell->config;
      rows[{config.batch, config.heads, config.head_dim, config.kv_heads}].insert(row_name(config));
    }
    for (const auto& [key, names] : rows) rows_.insert(rows_.end(), names.begin(), names.end());
  }
  int column(const Config& config) const {
    return static_cast<int>(std::distance(columns_.begin(), columns_.find(config.seqlen_q)));
  }
  int row(const Config& config) const {
    return static_cast<int>(std::find(rows_.begin(), rows_.end(), row_name(config)) - rows_.begin());
  }
  Axis x() const {
    Axis axis{"sequence length", Scale::words};
    for (const std::int64_t column : columns_) axis.words.push_back(fmt::format("{}", column));
    return axis;
  }
  Axis y() const { return {"batch, heads x head dimension", Scale::words, rows_}; }

 private:
  std::set<std::int64_t> columns_;
  std::vector<std::string> rows_;
};

struct MapGroup {
  std::string name;
  std::vector<const Cell*> cells;
};

std::vector<MapGroup> groups_of(const ChartInput& input, const Choice& choice) {
  std::vector<MapGroup> groups;
  for (const Cell* cell : choice.cells) {
    const std::string name = input.names.name(*cell);
    auto found = std::find_if(groups.begin(), groups.end(), [&](const MapGroup& one) { return one.name == name; });
    if (found == groups.end()) found = groups.insert(groups.end(), {name, {}});
    found->cells.push_back(cell);
  }
  return groups;
}

// Returns the baseline of a group's ratios: on the same machine and build the implementation `wanted`, else one that
// materialises scores, else the first. If that machine and build have only one implementation, the baseline is the
// first of all groups. Returns null if the baseline is the group itself.
const MapGroup* baseline_of(const std::vector<MapGroup>& groups, const MapGroup& other, const std::string& wanted) {
  const Run& run = other.cells.front()->run;
  const MapGroup* first = nullptr;
  std::size_t in_run = 0;
  for (const MapGroup& group : groups) {
    if (group.cells.front()->run != run) continue;
    ++in_run;
    if (!first) first = &group;
  }
  for (const std::string& name :
       {wanted, std::string("standard"), std::string("torch-naive"), std::string("torch-math")}) {
    for (const MapGroup& group : groups) {
      if (group.cells.front()->run == run && group.cells.front()->implementation == name) first = &group;
    }
    if (first->cells.front()->implementation == name) break;
  }
  if (in_run == 1) first = &groups.front();
  return first == &other ? nullptr : first;
}

using CellValue = std::function<std::optional<double>(const Cell&)>;

// Returns a field for each problem that has a value in both groups; `make` creates it from the two values.
std::vector<Field> ratio_fields(const MapGroup& base, const MapGroup& other, const MapAxes& layout,
                                const CellValue& value, const std::function<Field(double base, double other)>& make) {
  std::map<std::string, double> values;
  for (const Cell* cell : base.cells) {
    if (const auto one = value(*cell); one && *one > 0) values[problem_of(*cell)] = *one;
  }
  std::vector<Field> fields;
  for (const Cell* cell : other.cells) {
    const auto mine = value(*cell);
    const auto found = values.find(problem_of(*cell));
    if (!mine || *mine <= 0 || found == values.end()) continue;
    Field field = make(found->second, *mine);
    field.column = layout.column(cell->config);
    field.row = layout.row(cell->config);
    field.label = problem_of(*cell) + ": " + field.label;
    fields.push_back(std::move(field));
  }
  return fields;
}

Figure map_figure(const char* id, const char* title, const Choice& choice, const MapAxes& layout) {
  return {.id = id,
          .title = title,
          .section = "Overview",
          .causal = choice.causal,
          .dtype = choice.dtype,
          .pass = "",
          .caption = caption_of(choice.cells),
          .x = layout.x(),
          .y = layout.y(),
          .series = {}};
}

void add_ratios(const Choice& choice, const std::vector<MapGroup>& groups, const std::string& wanted,
                std::vector<Figure>& figures) {
  const MapAxes layout(choice.cells);
  for (const MapGroup& other : groups) {
    const MapGroup* found = baseline_of(groups, other, wanted);
    if (!found) continue;
    const MapGroup& base = *found;
    for (const Pass pass : kPasses) {
      Figure figure = map_figure("speed-up", "Speed-up", choice, layout);
      figure.view = fmt::format("{} over {}", other.name, base.name);
      figure.pass = name_of(pass);
      figure.fields = ratio_fields(
          base, other, layout, [&](const Cell& cell) { return cell.seconds(pass); },
          [&](double from, double to) -> Field {
            return {0, 0, fmt::format("{:.{}f}", from / to, from / to < 9.95 ? 2 : 1), ratio_color(from / to),
                    fmt::format("{} ms against {} ms", short_number(1e3 * to), short_number(1e3 * from))};
          });
      if (!figure.fields.empty()) figures.push_back(std::move(figure));
    }
    Figure figure = map_figure("memory-ratio", "Memory ratio", choice, layout);
    figure.view = fmt::format("{} as a share of {}", other.name, base.name);
    figure.fields = ratio_fields(
        base, other, layout, [](const Cell& cell) { return cell.peak_mb(); },
        [&](double from, double to) -> Field {
          return {0, 0, fmt::format("{:.0f} %", 100 * to / from), ratio_color(from / to),
                  fmt::format("{} MiB against {} MiB", short_number(to), short_number(from))};
        });
    if (!figure.fields.empty()) figures.push_back(std::move(figure));
  }
}

// Implementations with the most failed cells come first.
void add_statuses(const Choice& choice, std::vector<MapGroup> groups, std::vector<Figure>& figures) {
  const auto failed = [](const MapGroup& group) {
    return std::ranges::count_if(group.cells, [](const Cell* cell) { return cell->status != "ok"; });
  };
  std::ranges::stable_sort(groups, std::greater<>(), failed);
  const MapAxes layout(choice.cells);
  for (const MapGroup& group : groups) {
    Figure figure = map_figure("status", "Completed and out-of-memory cells", choice, layout);
    figure.view = group.name;
    for (const Cell* cell : group.cells) {
      const auto color = std::find_if(std::begin(kStatusColors), std::end(kStatusColors),
                                      [&](const StatusColor& one) { return one.status == cell->status; });
      figure.fields.push_back({layout.column(cell->config), layout.row(cell->config), cell->status, color->color,
                               problem_of(*cell) + ": " + (cell->reason.empty() ? cell->status : cell->reason)});
    }
    figures.push_back(std::move(figure));
  }
}

}  // namespace

void add_maps(const ChartInput& input, std::vector<Figure>& figures) {
  for (const Choice& choice : choices_of(input.cells)) {
    const std::vector<MapGroup> groups = groups_of(input, choice);
    add_ratios(choice, groups, input.baseline, figures);
    add_statuses(choice, groups, figures);
  }
}

}  // namespace strobe::report
