// Implements the table and charts of collectives, by engine, number of ranks and size.
#include "report/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "core/short_number.h"
#include "core/utf8.h"
#include "report/memory_map.h"

namespace strobe::report {
namespace {

std::string milliseconds_of(const Json& seconds) { return short_number(1e3 * seconds.as_number()); }

std::string ratio_text(const Json& row) {
  const Json* ratio = row.find("time_over_plain_mpi");
  if (!ratio) return "-";
  const Json::Array& interval = ratio->at("interval").as_array();
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio->at("median").as_number(), interval.at(0).as_number(),
                     interval.at(1).as_number());
}

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

Table collective_table(std::span<const Json> rows) {
  Table table{"Collectives of fp32",
              {left("operation"), "engine", "memory", "ranks", "size", "mean ms", "median ms", "spread", "slowest rank",
               "algorithm GB/s", "bus GB/s", "time / MPI time", left("remark")},
              {}};
  for (const Json& row : rows) {
    std::vector<std::string> cells{row.at("operation").as_string(), row.at("engine").as_string(),
                                   row.at("memory").as_string(), fmt::format("{}", row.at("ranks").as_integer()),
                                   bytes_text(static_cast<std::size_t>(row.at("bytes").as_integer()))};
    if (const Json* statistics = row.find("statistics")) {
      cells.push_back(milliseconds_of(statistics->at("mean(s)")));
      cells.push_back(milliseconds_of(statistics->at("median(s)")));
      cells.push_back(fmt::format("{:.0f} %", 100 * statistics->at("spread").as_number()));
      cells.push_back(fmt::format("{}", row.at("slowest_rank").as_integer()));
      cells.push_back(short_number(row.at("algorithm_bandwidth(GB/s)").as_number()));
      cells.push_back(short_number(row.at("bus_bandwidth(GB/s)").as_number()));
    }
    cells.resize(table.columns.size() - 2, "-");
    cells.push_back(ratio_text(row));
    const std::string& status = row.at("status").as_string();
    const Json* reason = row.find("reason");
    cells.push_back(status == "ok" ? "" : status + (reason ? ": " + reason->as_string() : ""));
    table.cells.push_back(std::move(cells));
  }
  return table;
}

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
    const double bandwidth = row.at("bus_bandwidth(GB/s)").as_number();
    series->points.push_back({row.at("bytes").as_number() / (1 << 20), bandwidth,
                              fmt::format("{}: {} GB/s", name, short_number(bandwidth))});
    figure->caption = caption_of(row);
  }
  return figures;
}

}  // namespace strobe::report
