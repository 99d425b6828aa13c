// Creates bar charts of geometric means over problems. Bars that are compared use the same problems.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/short_number.h"
#include "report/charts.h"

namespace strobe::report {
namespace {

// Requires at least one value, all above 0.
double geometric_mean(std::span<const double> values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

// Seconds by problem, for each series; `names` has the series in order of appearance.
struct Times {
  std::vector<std::string> names;
  std::map<std::string, std::map<std::string, double>> by_name;
  std::map<std::string, int> colors;
};

Times times_of(const ChartInput& input, std::span<const Cell* const> cells, Pass pass,
               const std::function<std::string(const Cell&)>& key) {
  Times times;
  for (const Cell* cell : cells) {
    const std::optional<double> seconds = cell->seconds(pass);
    if (!seconds) continue;
    const std::string name = input.names.name(*cell);
    if (!times.by_name.contains(name)) times.names.push_back(name);
    times.by_name[name][key(*cell)] = *seconds;
    times.colors[name] = input.names.color(*cell);
  }
  return times;
}

void add_by_implementation(const ChartInput& input, const Choice& choice, Pass pass, std::vector<Figure>& figures) {
  const Times times = times_of(input, choice.cells, pass, problem_of);
  if (times.names.empty()) return;
  std::vector<std::string> common;
  for (const auto& [problem, seconds] : times.by_name.at(times.names.front())) {
    const auto has = [&, &key = problem](const std::string& name) { return times.by_name.at(name).contains(key); };
    if (std::all_of(times.names.begin(), times.names.end(), has)) common.push_back(problem);
  }
  if (common.empty()) return;
  Figure figure{.id = "by-implementation",
                .title = "Time by implementation",
                .section = "Overview",
                .view = fmt::format("geometric mean over the {} cell{} that all completed", common.size(),
                                    common.size() == 1 ? "" : "s"),
                .causal = choice.causal,
                .dtype = choice.dtype,
                .pass = name_of(pass),
                .caption = caption_of(choice.cells),
                .x = {"implementation", Scale::words, times.names},
                .y = {fmt::format("{} ms", name_of(pass)), Scale::linear}};
  for (std::size_t i = 0; i < times.names.size(); ++i) {
    const std::string& name = times.names[i];
    std::vector<double> seconds;
    for (const std::string& problem : common) seconds.push_back(times.by_name.at(name).at(problem));
    const double mean = 1e3 * geometric_mean(seconds);
    // The legend has the time, because a short bar has no room for a label.
    figure.series.push_back(
        {.name = fmt::format("{}: {} ms", name, short_number(mean)),
         .color = times.colors.at(name),
         .mark = Mark::bar,
         .points = {{static_cast<double>(i), mean, fmt::format("{}: {} ms", name, short_number(mean))}}});
  }
  figures.push_back(std::move(figure));
}

// Two bars per implementation, over the problems measured with and without causal mask.
void add_causal(const ChartInput& input, const std::string& dtype, Pass pass, std::vector<Figure>& figures) {
  std::vector<const Cell*> of_type, on, off;
  for (const Cell& cell : input.cells) {
    if (cell.config.dtype != dtype) continue;
    of_type.push_back(&cell);
    (cell.config.causal ? on : off).push_back(&cell);
  }
  const auto key = [](const Cell& cell) {
    Config config = cell.config;
    config.causal = false;
    return describe(config);
  };
  const Times without = times_of(input, off, pass, key), with = times_of(input, on, pass, key);
  Figure figure{.id = "causal",
                .title = "Causal against non-causal",
                .section = "Overview",
                .dtype = dtype,
                .pass = name_of(pass),
                .caption = caption_of(of_type),
                .x = {"implementation", Scale::words},
                .y = {fmt::format("{} ms", name_of(pass)), Scale::linear},
                .series = {{.name = "causal off", .color = -1, .mark = Mark::bar},
                           {.name = "causal on", .color = -2, .mark = Mark::bar}}};
  std::size_t pairs = 0;
  for (const std::string& name : without.names) {
    if (!with.by_name.contains(name)) continue;
    std::vector<double> full, half;
    for (const auto& [problem, seconds] : without.by_name.at(name)) {
      const auto& other = with.by_name.at(name);
      const auto found = other.find(problem);
      if (found == other.end()) continue;
      full.push_back(seconds);
      half.push_back(found->second);
    }
    if (full.empty()) continue;
    pairs += full.size();
    const auto x = static_cast<double>(figure.x.words.size());
    const double a = 1e3 * geometric_mean(full), b = 1e3 * geometric_mean(half);
    figure.x.words.push_back(name);
    figure.series[0].points.push_back({x, a, fmt::format("{}, off: {} ms", name, short_number(a))});
    figure.series[1].points.push_back(
        {x, b, fmt::format("{}, on: {} ms, {:.2f} of off", name, short_number(b), b / a)});
  }
  if (pairs == 0) return;
  figure.view = fmt::format("geometric means over {} pair{} of cells", pairs, pairs == 1 ? "" : "s");
  figures.push_back(std::move(figure));
}

std::vector<std::string> parts_of(const std::string& label) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end; begin <= label.size(); begin = end + 2) {
    end = std::min(label.find(", ", begin), label.size());
    parts.push_back(label.substr(begin, end - begin));
  }
  return parts;
}

// Removes the parts, separated by ", ", that all labels share, and returns these. A single label is not changed.
std::string remove_shared_parts(std::vector<std::string>& labels) {
  if (labels.size() < 2) return "";
  std::vector<std::vector<std::string>> parts;
  for (const std::string& label : labels) parts.push_back(parts_of(label));
  const auto is_shared = [&](const std::string& part) {
    return std::ranges::all_of(parts, [&](const auto& of) { return std::ranges::find(of, part) != of.end(); });
  };
  const auto joined = [&](const std::vector<std::string>& of, bool shared) {
    std::vector<std::string> kept;
    std::ranges::copy_if(of, std::back_inserter(kept), [&](const auto& part) { return is_shared(part) == shared; });
    return fmt::format("{}", fmt::join(kept, ", "));
  };
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (std::string rest = joined(parts[i], false); !rest.empty()) labels[i] = std::move(rest);
  }
  return joined(parts[0], true);
}

}  // namespace

void add_bar_charts(const ChartInput& input, std::vector<Figure>& figures) {
  std::vector<std::string> types;
  for (const Choice& choice : choices_of(input.cells)) {
    for (const Pass pass : kPasses) add_by_implementation(input, choice, pass, figures);
    if (std::find(types.begin(), types.end(), choice.dtype) == types.end()) types.push_back(choice.dtype);
  }
  for (const std::string& type : types) {
    for (const Pass pass : kPasses) add_causal(input, type, pass, figures);
  }
}

void add_step_charts(const ChartInput& input, std::vector<Figure>& figures) {
  using Value = std::function<std::optional<double>(const Cell&)>;
  const auto tokens = [](const Cell& cell) -> std::optional<double> {
    const std::optional<double> seconds = cell.seconds(Pass::step);
    return seconds ? std::optional(static_cast<double>(cell.config.batch * cell.config.seqlen_q) / *seconds) : seconds;
  };
  const auto milliseconds = [](const Cell& cell) -> std::optional<double> {
    const std::optional<double> seconds = cell.seconds(Pass::step);
    return seconds ? std::optional(1e3 * *seconds) : seconds;
  };
  const std::tuple<const char*, const char*, const char*, Value> charts[] = {
      {"step-time", "Time of a training step", "ms", milliseconds},
      {"step-tokens", "Tokens per second of training", "tokens/s", tokens},
      {"step-memory", "Peak memory of a training step", "MiB", [](const Cell& cell) { return cell.peak_mb(); }}};
  std::vector<const Cell*> cells;
  std::vector<std::string> problems;
  for (const Cell& cell : input.cells) {
    const auto is_model = [](const auto& member) { return member.first == "model"; };
    if (!cell.seconds(Pass::step) || std::ranges::none_of(cell.config.members, is_model)) continue;
    cells.push_back(&cell);
    if (std::ranges::find(problems, problem_of(cell)) == problems.end()) problems.push_back(problem_of(cell));
  }
  if (cells.empty()) return;
  for (const auto& [id, title, unit, value] : charts) {
    Figure figure{.id = id,
                  .title = title,
                  .section = "Training",
                  .view = "median of the steps",
                  .caption = caption_of(cells),
                  .x = {problems.size() == 1 ? problems[0] : "", Scale::words, {}},
                  .y = {unit, Scale::linear}};
    for (const Cell* cell : cells) {
      const std::optional<double> y = value(*cell);
      if (!y) continue;
      const std::string name = input.names.name(*cell);
      auto series = std::ranges::find(figure.series, name, &Series::name);
      if (series == figure.series.end()) {
        series = figure.series.insert(series, {.name = name, .color = input.names.color(*cell), .mark = Mark::bar});
      }
      const auto x = static_cast<double>(figure.x.words.size());  // bars of one position would hide each other
      figure.x.words.push_back(problems.size() == 1 ? name : name + ", " + problem_of(*cell));
      series->points.push_back({x, *y, fmt::format("{}: {} {}", name, short_number(*y), unit)});
    }
    if (const std::string shared = remove_shared_parts(figure.x.words); !shared.empty()) {
      figure.view += ", " + shared;
    }
    if (!figure.series.empty()) figures.push_back(std::move(figure));
  }
}

}  // namespace strobe::report
