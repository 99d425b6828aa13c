// Creates line charts with one size as the x axis. The cells of a view differ only in implementation and that size, or
// also in the batch if batch * sequence length is constant. Views with the most cells come first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/short_number.h"
#include "report/charts.h"

namespace strobe::report {
namespace {

constexpr std::size_t kMaxViews = 24;  // views per chart, dtype and causal setting

struct SizeAxis {
  const char* id;
  const char* title;
  std::int64_t Config::*size;
};
constexpr SizeAxis kSizes[] = {{"seq_len", "sequence length", &Config::seqlen_q},
                               {"batch_size", "batch size", &Config::batch},
                               {"num_heads", "heads", &Config::heads},
                               {"emb_dim", "embedding dimension", &Config::emb}};

// Describes the sizes that are fixed along `axis`. Omits the number of keys if it equals that of queries, and KV heads
// if they equal the heads.
std::string fixed_text(const Config& config, const SizeAxis& axis) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const SizeAxis& other : kSizes) {
    if (other.size != axis.size) add(fmt::format("{} {}", other.title, config.*other.size));
  }
  if (config.seqlen_k != config.seqlen_q) add(fmt::format("{} keys", config.seqlen_k));
  if (config.kv_heads != config.heads && config.kv_heads > 0) {
    add(fmt::format("{} query heads per KV head", config.heads / config.kv_heads));
  }
  if (!config.rest.empty()) add(config.rest);
  return text;
}

// Describes the fixed sizes of a view in which batch * sequence length is constant, as in sweeps/paper.grid.
std::string fixed_tokens_text(const Config& config) {
  return fmt::format("{:.0f} tokens in all, heads {}, embedding dimension {}{}",
                     static_cast<double>(config.batch) * static_cast<double>(config.seqlen_q), config.heads, config.emb,
                     config.rest.empty() ? "" : ", " + config.rest);
}

struct View {
  std::string text;
  std::vector<const Cell*> cells;
  std::size_t sizes(const SizeAxis& axis) const {
    std::set<std::int64_t> seen;
    for (const Cell* cell : cells) seen.insert(cell->config.*axis.size);
    return seen.size();
  }
};

std::vector<View> views_of(const Choice& choice, const SizeAxis& axis) {
  std::map<std::string, View> by_text, by_tokens;
  for (const Cell* cell : choice.cells) {
    if (cell->launches.empty() || cell->config.*axis.size <= 0) continue;
    const std::string text = fixed_text(cell->config, axis);
    by_text[text].text = text;
    by_text[text].cells.push_back(cell);
    if (axis.size != &Config::seqlen_q || cell->config.seqlen_k != cell->config.seqlen_q) continue;
    const std::string tokens = fixed_tokens_text(cell->config);
    by_tokens[tokens].text = tokens;
    by_tokens[tokens].cells.push_back(cell);
  }
  std::vector<View> views;
  for (auto& [text, view] : by_text) {
    if (view.sizes(axis) >= 2) views.push_back(std::move(view));
  }
  for (auto& [text, view] : by_tokens) {
    if (view.sizes(axis) >= 3) views.push_back(std::move(view));
  }
  std::stable_sort(views.begin(), views.end(),
                   [](const View& a, const View& b) { return a.cells.size() > b.cells.size(); });
  if (views.size() > kMaxViews) views.resize(kMaxViews);
  return views;
}

// Returns " ~ S^1.9": the exponent of a power law, fitted by least squares in log-log space. Empty with fewer than
// three points.
std::string exponent_text(const std::vector<Point>& points) {
  if (points.size() < 3) return "";
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const Point& point : points) {
    mean_x += std::log(point.x) / n;
    mean_y += std::log(point.y) / n;
  }
  for (const Point& point : points) {
    const double dx = std::log(point.x) - mean_x;
    xx += dx * dx;
    xy += dx * (std::log(point.y) - mean_y);
  }
  return xx > 0 ? fmt::format(" ~ S^{:.1f}", xy / xx) : "";
}

struct Reading {
  double y, low, high;
};
using LineValue = std::function<std::optional<Reading>(const Cell&)>;
enum class Fit { no, yes };

// Returns one line per implementation; empty if no line has two points.
std::vector<Series> lines_of(const ChartInput& input, const View& view, const SizeAxis& axis, const LineValue& value,
                             const std::string& unit, Fit fit) {
  std::vector<Series> lines;
  std::size_t longest = 0;
  for (const Cell* cell : view.cells) {
    const std::optional<Reading> reading = value(*cell);
    if (!reading || reading->y <= 0) continue;
    const std::string name = input.names.name(*cell);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Series& one) { return one.name == name; });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {.name = name, .color = input.names.color(*cell), .mark = Mark::line});
    }
    const auto x = static_cast<double>(cell->config.*axis.size);
    std::string label = fmt::format("{}: {} {}", name, short_number(reading->y), unit);
    if (reading->low < reading->high) {
      label += fmt::format(" ({} to {})", short_number(reading->low), short_number(reading->high));
    }
    line->points.push_back({x, reading->y, std::move(label), reading->low, reading->high});
  }
  for (Series& line : lines) {
    std::sort(line.points.begin(), line.points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
    // Rows measured with different --pass give points with equal x. Only one is drawn.
    const auto same_x = [](const Point& a, const Point& b) { return a.x == b.x; };
    line.points.erase(std::unique(line.points.begin(), line.points.end(), same_x), line.points.end());
    longest = std::max(longest, line.points.size());
    if (fit == Fit::yes) line.name += exponent_text(line.points);
  }
  return longest >= 2 ? lines : std::vector<Series>{};
}

void add_view(const ChartInput& input, const Choice& choice, const SizeAxis& axis, const View& view,
              std::vector<Figure>& figures) {
  std::set<double> ticks;
  for (const Cell* cell : view.cells) ticks.insert(static_cast<double>(cell->config.*axis.size));
  const RateUnit unit = input.unit;
  const Fit fit = axis.size == &Config::seqlen_q ? Fit::yes : Fit::no;  // fits time ~ S^x along sequence lengths only
  const auto add = [&](const char* quantity, const std::string& title, Pass pass, const std::string& y_title,
                       Scale scale, std::vector<Series> series) {
    if (series.empty()) return;
    const bool timed = std::string_view(quantity) == "time" || std::string_view(quantity) == "rate";
    figures.push_back({.id = fmt::format("{}-{}", quantity, axis.id),
                       .title = fmt::format("{} against {}", title, axis.title),
                       .section = fmt::format("Against {}", axis.title),
                       .view = view.text,
                       .causal = choice.causal,
                       .dtype = choice.dtype,
                       .pass = timed ? name_of(pass) : "",
                       .caption = caption_of(view.cells),
                       .x = {axis.title, Scale::logarithmic, {}, {ticks.begin(), ticks.end()}},
                       .y = {y_title, scale},
                       .series = std::move(series)});
  };
  for (const Pass pass : kPasses) {
    const LineValue time = [&](const Cell& cell) -> std::optional<Reading> {
      const std::optional<double> seconds = cell.seconds(pass);
      const std::optional<Interval> interval = cell.interval(pass);
      if (!seconds || !interval) return std::nullopt;
      return Reading{1e3 * *seconds, 1e3 * interval->low, 1e3 * interval->high};
    };
    const LineValue rate = [&](const Cell& cell) -> std::optional<Reading> {
      const std::optional<double> value = cell.flop_rate(pass), seconds = cell.seconds(pass);
      const std::optional<Interval> interval = cell.interval(pass);
      if (!value || !interval || interval->low <= 0) return std::nullopt;
      const double work = unit.factor * *value * *seconds;
      return Reading{work / *seconds, work / interval->high, work / interval->low};
    };
    add("time", "Time", pass, fmt::format("{} ms", name_of(pass)), Scale::logarithmic,
        lines_of(input, view, axis, time, "ms", fit));
    add("rate", "Rate", pass, fmt::format("{} {}", name_of(pass), unit.name), Scale::linear,
        lines_of(input, view, axis, rate, unit.name, Fit::no));
  }
  const auto exact = [](std::optional<double> value) {
    return value ? std::optional(Reading{*value, *value, *value}) : std::nullopt;
  };
  const LineValue memory = [&](const Cell& cell) { return exact(cell.peak_mb()); };
  add("memory", "Peak memory", Pass::total, "peak MiB", Scale::logarithmic,
      lines_of(input, view, axis, memory, "MiB", fit));
  if (axis.size != &Config::seqlen_q) return;
  const LineValue kept = [&](const Cell& cell) { return exact(cell.saved_mb()); };
  add("kept", "Memory saved for backward", Pass::total, "MiB saved for backward", Scale::logarithmic,
      lines_of(input, view, axis, kept, "MiB", fit));
}

}  // namespace

void add_line_charts(const ChartInput& input, std::vector<Figure>& figures) {
  for (const SizeAxis& axis : kSizes) {
    for (const Choice& choice : choices_of(input.cells)) {
      for (const View& view : views_of(choice, axis)) add_view(input, choice, axis, view, figures);
    }
  }
}

}  // namespace strobe::report
