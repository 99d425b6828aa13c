// Creates scatter charts: measured against predicted memory, and rates against the machine's measured ceilings
// (roofline).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/short_number.h"
#include "report/charts.h"

namespace strobe::report {
namespace {

void add_point(const ChartInput& input, const Cell& cell, Point point, std::vector<Series>& series) {
  const std::string name = input.names.name(cell);
  auto found = std::find_if(series.begin(), series.end(), [&](const Series& one) { return one.name == name; });
  if (found == series.end()) {
    found = series.insert(series.end(), {.name = name, .color = input.names.color(cell), .mark = Mark::point});
  }
  point.label = fmt::format("{}, {}: {}", name, describe(cell.config), point.label);
  found->points.push_back(std::move(point));
}

struct Extent {
  double least = HUGE_VAL, most = 0;
  void include(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

void add_memory(const ChartInput& input, const Choice& choice, std::vector<Figure>& figures) {
  Figure figure{.id = "memory-predicted",
                .title = "Memory, measured against predicted",
                .section = "Against the models",
                .causal = choice.causal,
                .dtype = choice.dtype,
                .pass = "",
                .caption = caption_of(choice.cells),
                .x = {"predicted MiB", Scale::logarithmic},
                .y = {"measured peak MiB", Scale::logarithmic},
                .series = {}};
  Extent range;
  double worst = 0;
  for (const Cell* cell : choice.cells) {
    const std::optional<double> predicted = cell->predicted_mb(), measured = cell->peak_mb();
    if (!predicted || !measured || *predicted <= 0 || *measured <= 0) continue;
    const double off = *measured / *predicted - 1;
    worst = std::max(worst, std::fabs(off));
    range.include(*predicted);
    add_point(input, *cell,
              {*predicted, *measured,
               fmt::format("{} MiB measured, {} MiB predicted ({:+.1f} %)", short_number(*measured),
                           short_number(*predicted), 100 * off)},
              figure.series);
  }
  if (figure.series.empty()) return;
  figure.view = fmt::format("largest difference {:.1f} %", 100 * worst);
  const double low = range.least / 1.5, high = range.most * 1.5;
  figure.series.push_back(
      {.name = "measured = predicted", .color = -1, .mark = Mark::rule, .points = {{low, low}, {high, high}}});
  figures.push_back(std::move(figure));
}

struct Ceiling {
  std::string machine;
  double matmul = 0, copy = 0;  // FLOP/s, bytes/s
};

// Returns one ceiling per machine and number of threads: the maximum over its rows, since other load can only lower a
// measured rate.
std::vector<Ceiling> ceilings_of(std::span<const Cell* const> cells) {
  std::map<std::string, Ceiling> ceilings;
  for (const Cell* cell : cells) {
    for (const Result& launch : cell->launches) {
      if (launch.matmul_rate.value_or(0) <= 0 || launch.copy_rate.value_or(0) <= 0) continue;
      Ceiling& ceiling = ceilings[fmt::format("{} {}", cell->run.machine, cell->run.threads)];
      ceiling.machine = cell->run.machine;
      ceiling.matmul = std::max(ceiling.matmul, *launch.matmul_rate);
      ceiling.copy = std::max(ceiling.copy, *launch.copy_rate);
    }
  }
  std::vector<Ceiling> out;
  for (auto& [key, ceiling] : ceilings) out.push_back(std::move(ceiling));
  return out;
}

void add_roofline(const ChartInput& input, const Choice& choice, Pass pass, std::vector<Figure>& figures) {
  const std::vector<Ceiling> ceilings = ceilings_of(choice.cells);
  const RateUnit unit = input.unit;
  Figure figure{.id = "roofline",
                .title = "Rate against the machine's ceilings (roofline)",
                .section = "Against the models",
                .view = ceilings.empty() ? "the files have no measured ceilings (bench --quick)" : "",
                .causal = choice.causal,
                .dtype = choice.dtype,
                .pass = name_of(pass),
                .caption = caption_of(choice.cells),
                .x = {"arithmetic intensity, FLOP/byte", Scale::logarithmic},
                .y = {fmt::format("{} {}", name_of(pass), unit.name), Scale::logarithmic},
                .series = {}};
  Extent range;
  for (const Cell* cell : choice.cells) {
    const std::optional<double> rate = cell->flop_rate(pass), seconds = cell->seconds(pass);
    const double bytes = least_bytes(cell->config, pass);
    if (!rate || *rate <= 0 || bytes <= 0) continue;
    const double intensity = *rate * *seconds / bytes;
    range.include(intensity);
    add_point(input, *cell, {intensity, unit.factor * *rate, short_number(unit.factor * *rate) + " " + unit.name},
              figure.series);
  }
  if (figure.series.empty()) return;
  for (const Ceiling& ceiling : ceilings) {
    const double knee = ceiling.matmul / ceiling.copy;
    const double low = std::min(range.least / 1.5, knee / 2), high = std::max(range.most * 1.5, knee * 2);
    figure.series.push_back(
        {.name = fmt::format("{}: matmul {} {}, copy {} GB/s", ceiling.machine,
                             short_number(unit.factor * ceiling.matmul), unit.name, short_number(1e-9 * ceiling.copy)),
         .color = -1,
         .mark = Mark::rule,
         .points = {{low, unit.factor * low * ceiling.copy},
                    {knee, unit.factor * ceiling.matmul},
                    {high, unit.factor * ceiling.matmul}}});
  }
  figures.push_back(std::move(figure));
}

}  // namespace

void add_point_charts(const ChartInput& input, std::vector<Figure>& figures) {
  for (const Choice& choice : choices_of(input.cells)) {
    add_memory(input, choice, figures);
    for (const Pass pass : kPasses) add_roofline(input, choice, pass, figures);
  }
}

}  // namespace strobe::report
