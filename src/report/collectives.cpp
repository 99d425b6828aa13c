// Implements the charts of collectives, by engine, number of ranks and size.
#include "report/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "core/short_number.h"
#include "core/utf8.h"

namespace strobe::report {
namespace {

std::string series_name(const Json& row) {
  const std::string memory = row.at("memory").as_string() == "gpu" ? ", GPU memory" : "";
  return fmt::format("{}, {}{}", row.at("engine").as_string(), counted(row.at("ranks").as_integer(), "rank"), memory);
}

std::string caption_of(const Json& row) {
  const Json* environment = row.find("environment");
  if (!environment) return "";
  const Json& cpu = environment->at("cpu");
  return fmt::format("{}, {} cores; {}; {}; {}", cpu.at("model").as_string(), cpu.at("cores_online").as_integer(),
                     row.at("library").as_string(), row.at("link").as_string(),
                     utf8_prefix(environment->at("date").as_string(), 10));
}

Figure collective_figure(const std::string& operation) {
  return {.id = operation,
          .title = operation + ": bus bandwidth",
          .view = "fp32, slowest rank",
          .x = {"size, MiB", Scale::logarithmic},
          .y = {"GB/s", Scale::linear}};
}

}  // namespace

std::vector<Figure> collective_figures(std::span<const Json> rows) {
  std::vector<Figure> figures;
  for (const Json& row : rows) {
    if (!row.find("statistics")) continue;
    const std::string& operation = row.at("operation").as_string();
    auto figure = std::find_if(figures.begin(), figures.end(), [&](const Figure& one) { return one.id == operation; });
    if (figure == figures.end()) figure = figures.insert(figures.end(), collective_figure(operation));
    const std::string name = series_name(row);
    auto series =
        std::find_if(figure->series.begin(), figure->series.end(), [&](const Series& one) { return one.name == name; });
    if (series == figure->series.end()) {
      const auto color = static_cast<int>(figure->series.size()) % kColors;
      series = figure->series.insert(figure->series.end(), {.name = name, .color = color, .mark = Mark::line});
    }
    const double bandwidth = 1e-9 * row.at("bus_bandwidth_bytes_per_s").as_number();
    series->points.push_back({row.at("bytes").as_number() / (1 << 20), bandwidth,
                              fmt::format("{}: {} GB/s", name, short_number(bandwidth))});
    figure->caption = caption_of(row);
  }
  return figures;
}

}  // namespace strobe::report
