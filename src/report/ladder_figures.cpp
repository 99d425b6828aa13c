// Creates the charts of the ladder: rungs on the y axis, time on the x axis, which is logarithmic because times span
// five orders of magnitude.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/fail.h"
#include "core/printable.h"
#include "core/short_number.h"
#include "core/utf8.h"
#include "report/assets.h"
#include "report/ladder.h"
#include "report/ncu_csv.h"
#include "results/ranges.h"

namespace strobe::report {
namespace {

// Returns "NVIDIA H200; AMD EPYC ...; 2026-11-15" from a row's environment; "" if it is missing.
std::string machine_of(const Json& row) {
  const Json* environment = row.find("environment");
  if (!environment) return "";
  std::string text;
  for (const Json& gpu : environment->at("gpu").at("gpus").as_array()) text += gpu.at("name").as_string() + "; ";
  return text + environment->at("cpu").at("model").as_string() + "; " +
         std::string(utf8_prefix(environment->at("date").as_string(), 10));
}

bool is_case_28(const Json& size) {
  return size.at("batch").as_integer() == 4 && size.at("rows").as_integer() == 16384 &&
         size.at("dim").as_integer() == 64;
}

Figure time_figure(const std::string& size, const std::vector<const Json*>& rows) {
  Figure figure{.id = "ladder",
                .title = "The ladder",
                .view = "case " + size + ", copies and kernels",
                .caption = machine_of(*rows.front()),
                .x = {"seconds", Scale::logarithmic},
                .y = {"", Scale::words},
                .series = {{.name = "measured here", .color = 0, .mark = Mark::point}}};
  const bool published = is_case_28(rows.front()->at("case"));
  if (published) figure.series.push_back({.name = "GTX 1080, published", .color = 1, .mark = Mark::point});
  const std::vector<PublishedTime> times = published ? published_times() : std::vector<PublishedTime>{};
  bool scaled = false;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {  // reversed: the first rung is on top
    const std::string& rung = (*row)->at("rung").as_string();
    const auto y = static_cast<double>(figure.y.words.size());
    const Json* seconds = (*row)->find("seconds");
    const auto found =
        std::find_if(times.begin(), times.end(), [&](const PublishedTime& time) { return time.rung == rung; });
    if (!seconds && found == times.end()) continue;
    figure.y.words.push_back(rung);
    if (seconds) {
      scaled |= (*row)->find("scaled_from") != nullptr;
      figure.series[0].points.push_back(
          {seconds->as_number(), y, fmt::format("{}: {} s", rung, short_number(seconds->as_number()))});
    }
    if (found != times.end())
      figure.series[1].points.push_back(
          {found->seconds, y, fmt::format("{}, GTX 1080: {} s", rung, short_number(found->seconds))});
  }
  if (scaled) figure.caption += "; slow rungs scaled up from smaller cases";
  return figure;
}

// Plots a counter against the number of scores of a case, with one series per rung.
Figure counter_figure(const Counter& counter, std::span<const Json> rows) {
  Figure figure{.id = std::string("counter-") + counter.key,
                .title = counter.title,
                .view = "against the size of the case",
                .x = {"scores, B N N", Scale::logarithmic},
                .y = {counter.unit, Scale::linear}};
  for (const Json& row : rows) {
    if (row.at("kind").as_string() != "profile") continue;
    const Json* values = row.find("counters");
    const Json* value = values ? values->find(counter.key) : nullptr;
    if (!value || value->is_null()) continue;
    const std::string& rung = row.at("rung").as_string();
    auto series =
        std::find_if(figure.series.begin(), figure.series.end(), [&](const Series& s) { return s.name == rung; });
    if (series == figure.series.end()) {
      const auto color = static_cast<int>(figure.series.size());
      series = figure.series.insert(figure.series.end(), {.name = rung, .color = color, .mark = Mark::line});
    }
    const Json& size = row.at("case");
    const double n = size.at("rows").as_number();
    series->points.push_back({size.at("batch").as_number() * n * n, value->as_number(),
                              fmt::format("{}, {}: {}", rung, case_text(size), short_number(value->as_number()))});
    figure.caption = machine_of(row);
  }
  for (Series& series : figure.series) {
    std::sort(series.points.begin(), series.points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  }
  return figure;
}

}  // namespace

std::vector<PublishedTime> read_published(std::string_view csv) {
  std::vector<PublishedTime> times;
  for (int line_number = 1; !csv.empty(); ++line_number) {
    const std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(csv.size(), line.size() + 1));
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t comma = line.find(',');
    double seconds = 0;
    const std::string_view value = comma == std::string_view::npos ? "" : line.substr(comma + 1);
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (code != std::errc() || end != value.data() + value.size() || !holds(kSecondsRange, seconds))
      fail(ErrorCode::invalid_argument, "published times, line {}: {}: expected RUNG,SECONDS", line_number,
           printable_value(line));
    times.push_back({std::string(line.substr(0, comma)), seconds});
  }
  return times;
}

std::vector<PublishedTime> published_times() { return read_published(kLadderPublished); }

std::vector<Figure> ladder_figures(std::span<const Json> rows) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Json*>> by_case;
  for (const Json& row : rows) {
    if (row.at("kind").as_string() != "rung") continue;
    const std::string size = case_text(row.at("case"));
    if (by_case[size].empty()) order.push_back(size);
    by_case[size].push_back(&row);
  }
  std::vector<Figure> figures;
  for (const std::string& size : order) {
    Figure figure = time_figure(size, by_case.at(size));
    if (!figure.series[0].points.empty()) figures.push_back(std::move(figure));
  }
  for (const Counter& counter : counters()) {
    Figure figure = counter_figure(counter, rows);
    const bool drawn =
        std::any_of(figure.series.begin(), figure.series.end(), [](const Series& s) { return s.points.size() > 1; });
    if (drawn) figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace strobe::report
