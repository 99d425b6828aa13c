// Creates the tables and charts of `strobe plan`. Columns are sharding strategies, in the order of the result rows.
#include "report/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/counted.h"
#include "core/short_number.h"
#include "core/units.h"

namespace strobe::report {
namespace {

using PlanRows = std::vector<const Json*>;
using Text = std::function<std::string(const Json&)>;

// Groups rows by number of devices.
std::vector<PlanRows> by_devices(std::span<const Json> rows) {
  std::vector<PlanRows> groups;
  for (const Json& row : rows) {
    const bool same = !groups.empty() && groups.back()[0]->at("devices").as_integer() == row.at("devices").as_integer();
    if (!same) groups.emplace_back();
    groups.back().push_back(&row);
  }
  return groups;
}

const std::string& sharding_of(const Json& row) { return row.at("sharding").as_string(); }
double seconds(const Json& row, const char* part) { return row.at("time_s").at(part).as_number(); }
double bytes(const Json& row, const char* part) { return row.at("memory_bytes").at(part).as_number(); }
std::string gib(double value) { return short_number(value / kGiB); }

std::vector<Heading> columns_of(const char* first, const PlanRows& rows, const char* last) {
  std::vector<Heading> columns{left(first)};
  for (const Json* row : rows) columns.emplace_back(sharding_of(*row));
  columns.push_back(left(last));
  return columns;
}

std::string devices_text(const Json& row) { return counted(row.at("devices").as_integer(), "device"); }

bool memory_is_known(const Json& row) { return !row.at("device_memory_bytes").is_null(); }

bool fits(const Json& row) {
  return memory_is_known(row) && bytes(row, "total") <= row.at("device_memory_bytes").as_number();
}

// A line of a table: a phase or part, with one value per sharding strategy. Omitted if all values are 0.
struct PartLine {
  const char* name;
  Text text;
  const char* remark;
};

Table parts_table(std::string title, const PlanRows& rows, std::span<const PartLine> lines) {
  Table table{std::move(title), columns_of("", rows, ""), {}};
  for (const PartLine& line : lines) {
    std::vector<std::string> cells{line.name};
    for (const Json* row : rows) cells.push_back(line.text(*row));
    const bool any = std::any_of(cells.begin() + 1, cells.end(), [](const std::string& cell) { return cell != "0"; });
    cells.emplace_back(line.remark);
    if (any) table.cells.push_back(std::move(cells));
  }
  return table;
}

Table memory_parts(const PlanRows& rows) {
  const auto of = [](const char* part) { return [part](const Json& row) { return gib(bytes(row, part)); }; };
  std::vector<PartLine> lines{{"weights", of("weights"), "fp32 and a low-precision copy"},
                              {"gradients", of("gradients"), "fp32"},
                              {"optimizer", of("optimizer"), "AdamW's moments"},
                              {"activations", of("activations"), "without gradients"},
                              {"other", of("other"), "tokens, workspace"},
                              {"total", of("total"), ""}};
  const bool known = memory_is_known(*rows[0]);
  const auto fits_text = [](const Json& row) { return std::string(fits(row) ? "yes" : "no"); };
  const std::string of_capacity =
      known ? fmt::format("of {} GiB", gib(rows[0]->at("device_memory_bytes").as_number())) : "";
  if (known) lines.push_back({"fits", fits_text, of_capacity.c_str()});
  return parts_table(fmt::format("Memory of one of {}, GiB", devices_text(*rows[0])), rows, lines);
}

Table time_parts(const PlanRows& rows) {
  const auto ms = [](const char* part) {
    return [part](const Json& row) { return short_number(1e3 * seconds(row, part)); };
  };
  const auto exchange = [](const Json& row) {
    return short_number(1e3 * (seconds(row, "forward_exchange") + seconds(row, "backward_exchange")));
  };
  const auto sent = [](const char* where) {
    return [where](const Json& row) { return short_number(1e-9 * row.at("sent_bytes").at(where).as_number()); };
  };
  std::vector<PartLine> lines{
      {"forward", ms("forward"), ""},
      {"backward", ms("backward"), ""},
      {"update", ms("update"), ""},
      {"exchange", exchange, "overlappable"},
      {"exposed", ms("exposed"), "not overlapped"},
      {"gather", ms("gather"), "weights, not overlapped"},
      {"tensor", ms("tensor"), "activations, not overlapped"},
      {"bubble", ms("bubble"), "idle, waiting for other stages"},
      {"pipeline", ms("pipeline"), "activations, not overlapped"},
      {"step", ms("step"), ""},
      {"tokens/s", [](const Json& row) { return short_number(row.at("tokens_per_s").as_number()); }, "of all devices"},
      {"computing",
       [](const Json& row) { return fmt::format("{:.1f} %", 100 * row.at("computing_share").as_number()); },
       "of the step"},
      {"sent", sent("inside"), "GB within the node"},
      {"sent out", sent("between"), "GB to other nodes"},
      {"calls", [](const Json& row) { return fmt::format("{:.0f}", row.at("calls").as_number()); }, "in backward"},
      {"call", [](const Json& row) { return short_number(1e-6 * row.at("call_bytes").as_number()); },
       "MB of gradients"}};
  return parts_table(fmt::format("One step of {}, ms", devices_text(*rows[0])), rows, lines);
}

// One line per number of devices.
Table scaling_table(std::string title, const std::vector<PlanRows>& groups, const char* last, const Text& cell,
                    const std::function<std::string(const PlanRows&)>& remark) {
  Table table{std::move(title), columns_of("devices", groups[0], last), {}};
  for (const PlanRows& rows : groups) {
    std::vector<std::string> cells{fmt::format("{}", rows[0]->at("devices").as_integer())};
    for (const Json* row : rows) cells.push_back(cell(*row));
    cells.push_back(remark(rows));
    table.cells.push_back(std::move(cells));
  }
  return table;
}

// Returns the sharding strategies for which `has` holds: "all", "gradients, weights" or "-".
std::string strategies_with(const PlanRows& rows, const std::function<bool(const Json&)>& has) {
  std::string text;
  std::size_t count = 0;
  for (const Json* row : rows) {
    if (!has(*row)) continue;
    ++count;
    text += (text.empty() ? "" : ", ") + sharding_of(*row);
  }
  return count == 0 ? "-" : count == rows.size() && count > 1 ? "all" : text;
}

// Returns a legend name such as "ZeRO-2 (gradients)". Each stage also shards the state of the lower stages.
std::string line_name(const std::string& sharding) {
  const char* const stage = sharding == "optimizer" ? "ZeRO-1" : sharding == "gradients" ? "ZeRO-2" : "ZeRO-3";
  return sharding == "replicated" ? sharding : fmt::format("{} ({})", stage, sharding);
}

Series& series_of(Figure& figure, const std::string& name) {
  const auto found =
      std::find_if(figure.series.begin(), figure.series.end(), [&](const Series& one) { return one.name == name; });
  if (found != figure.series.end()) return *found;
  figure.series.push_back({.name = name, .color = static_cast<int>(figure.series.size()) % kColors});
  return figure.series.back();
}

Figure plan_figure(const char* id, const char* title, const std::vector<PlanRows>& groups, Axis y,
                   const std::function<double(const Json&)>& value) {
  const Json& first = *groups[0][0];
  Figure figure{.id = id,
                .title = title,
                .view = first.at("work").as_string(),
                .caption = first.at("machine").as_string(),
                .x = {"devices", Scale::logarithmic},
                .y = std::move(y)};
  for (const PlanRows& rows : groups) {
    const auto devices = rows[0]->at("devices").as_number();
    figure.x.ticks.push_back(devices);
    for (const Json* row : rows) {
      const std::string name = line_name(sharding_of(*row));
      series_of(figure, name)
          .points.push_back(
              {devices, value(*row),
               fmt::format("{}, {}: {} {}", devices_text(*row), name, short_number(value(*row)), figure.y.title)});
    }
  }
  return figure;
}

void add_rule(Figure& figure, const std::vector<PlanRows>& groups, std::string name, double value) {
  Series rule{.name = std::move(name), .color = -1, .mark = Mark::rule};
  for (const PlanRows* rows : {&groups.front(), &groups.back()}) {
    rule.points.push_back({(*rows)[0]->at("devices").as_number(), value});
  }
  figure.series.push_back(std::move(rule));
}

}  // namespace

std::vector<Table> plan_tables(std::span<const Json> rows) {
  const std::vector<PlanRows> groups = by_devices(rows);
  std::vector<Table> tables{memory_parts(groups[0]), time_parts(groups[0])};
  if (groups.size() == 1) return tables;
  tables.push_back(scaling_table(
      "Step, ms, and computing share", groups, "shortest",
      [](const Json& row) {
        return fmt::format("{} ({:.0f} %)", short_number(1e3 * seconds(row, "step")),
                           100 * row.at("computing_share").as_number());
      },
      [](const PlanRows& some) {
        const auto least = std::min_element(some.begin(), some.end(), [](const Json* a, const Json* b) {
          return seconds(*a, "step") < seconds(*b, "step");
        });
        return sharding_of(**least);
      }));
  tables.push_back(scaling_table(
      "Smallest batch per device that overlaps the exchange completely", groups, "overlapped at this batch",
      [](const Json& row) { return fmt::format("{}", row.at("least_batch").as_integer()); },
      [](const PlanRows& some) {
        return strategies_with(some, [](const Json& row) { return row.at("hides").as_bool(); });
      }));
  tables.push_back(scaling_table(
      "Memory of a device, GiB", groups, "fits", [](const Json& row) { return gib(bytes(row, "total")); },
      [](const PlanRows& some) { return memory_is_known(*some[0]) ? strategies_with(some, fits) : "unknown"; }));
  return tables;
}

std::vector<Figure> plan_figures(std::span<const Json> rows) {
  const std::vector<PlanRows> groups = by_devices(rows);
  if (groups.size() < 2) return {};
  const Json& first = *groups[0][0];
  Figure time = plan_figure("time", "Time of a training step", groups, {"ms", Scale::linear},
                            [](const Json& row) { return 1e3 * seconds(row, "step"); });
  add_rule(time, groups, "forward and backward", 1e3 * (seconds(first, "forward") + seconds(first, "backward")));
  Figure memory = plan_figure("memory", "Memory of one device", groups, {"GiB", Scale::linear},
                              [](const Json& row) { return bytes(row, "total") / kGiB; });
  if (const Json& capacity = first.at("device_memory_bytes"); !capacity.is_null()) {
    add_rule(memory, groups, fmt::format("device memory {} GiB", gib(capacity.as_number())),
             capacity.as_number() / kGiB);
  }
  return {time, memory};
}

}  // namespace strobe::report
