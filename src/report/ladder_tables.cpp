// Creates the tables of the ladder. Times are in milliseconds.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "core/short_number.h"
#include "report/ladder.h"
#include "report/ncu_csv.h"

namespace strobe::report {
namespace {

constexpr const char* kNone = "-";

std::optional<double> number(const Json& object, const char* key) {
  const Json* found = object.find(key);
  if (!found || found->is_null()) return std::nullopt;
  return found->as_number();
}

std::string field_text(const Json& object, const char* key) {
  const Json* found = object.find(key);
  return found ? found->as_string() : "";
}

std::optional<double> part(const Json& row, const char* key) {
  const Json* split = row.find("split");
  return split ? number(*split, key) : std::nullopt;
}

std::string milliseconds_if_known(const std::optional<double>& seconds) {
  return seconds ? short_number(1e3 * *seconds) : kNone;
}

std::string ratio(const std::optional<double>& base, const std::optional<double>& seconds) {
  return base && seconds && *seconds > 0 ? short_number(*base / *seconds) : kNone;
}

std::string rate(const Json& row) {
  const std::optional<double> seconds = part(row, "kernel");
  return seconds && *seconds > 0 ? short_number(1e-9 * row.at("flops").as_number() / *seconds) : kNone;
}

std::string error_text(const Json& row) {
  const std::optional<double> error = number(row, "max_error");
  return error ? fmt::format("{:.1e}", *error) : kNone;
}

std::string remark(const Json& row) {
  const std::string& status = row.at("status").as_string();
  const std::string reason = field_text(row, "reason");
  if (status != "ok") return status + (reason.empty() ? "" : ": " + reason);
  const Json* from = row.find("scaled_from");
  return from ? "scaled from " + case_text(*from) : "";
}

using Rows = std::vector<const Json*>;

Rows rows_of(std::span<const Json> rows, std::string_view kind, const std::string& size) {
  Rows chosen;
  for (const Json& row : rows) {
    if (row.at("kind").as_string() == kind && case_text(row.at("case")) == size) chosen.push_back(&row);
  }
  return chosen;
}

std::vector<std::string> cases_of(std::span<const Json> rows) {
  std::vector<std::string> cases;
  for (const Json& row : rows) {
    const std::string size = case_text(row.at("case"));
    if (std::find(cases.begin(), cases.end(), size) == cases.end()) cases.push_back(size);
  }
  return cases;
}

std::optional<double> sequential_seconds(const Rows& rungs) {
  for (const Json* row : rungs) {
    if (row->at("rung").as_string() == "sequential") return number(*row, "seconds");
  }
  return std::nullopt;
}

bool is_on_gpu(const Json* row) { return row->at("device").as_string() == "gpu"; }

// Removes the GPU rungs if all were refused for the same reason. Returns "14 rungs need a GPU: REASON", or "".
std::string remove_refused_gpu_rungs(Rows& rows) {
  const auto first = std::find_if(rows.begin(), rows.end(), is_on_gpu);
  const auto same = [&](const Json* row) {
    return !is_on_gpu(row) ||
           (row->at("status").as_string() == "refused" && field_text(*row, "reason") == field_text(**first, "reason"));
  };
  const auto count = std::count_if(rows.begin(), rows.end(), is_on_gpu);
  if (count < 2 || !std::all_of(rows.begin(), rows.end(), same)) return "";
  const std::string text = fmt::format("{} rungs need a GPU: {}", count, field_text(**first, "reason"));
  std::erase_if(rows, is_on_gpu);
  return text;
}

Table rung_table(const std::string& size, const Rows& all) {
  Rows rows = all;
  const std::string refused = remove_refused_gpu_rungs(rows);
  const bool any_gpu = std::any_of(rows.begin(), rows.end(), is_on_gpu);
  Table table{refused.empty() ? size : fmt::format("{}; {}", size, refused), {left("rung"), "total ms"}, {}};
  std::vector<std::pair<const char*, const char*>> parts;  // title and key
  if (any_gpu) {
    parts = {{"to GPU", "to_device"},  {"kernel", "kernel"},  {"to host", "to_host"},
             {"allocate", "allocate"}, {"streams", "create"}, {"pin", "pin"}};
  }
  for (const auto& [title, key] : parts) table.columns.emplace_back(title);
  for (const char* title : {"GFLOP/s", "x sequential", "x before", "max error"}) table.columns.emplace_back(title);
  table.columns.push_back(left("remark"));
  const std::optional<double> sequential = sequential_seconds(rows);
  std::optional<double> before;
  for (const Json* row : rows) {
    const std::optional<double> seconds = number(*row, "seconds");
    std::vector<std::string> cells = {row->at("rung").as_string(), milliseconds_if_known(seconds)};
    for (const auto& [title, key] : parts) {
      const bool applies = is_on_gpu(row) || key == std::string_view("kernel");
      cells.push_back(applies ? milliseconds_if_known(part(*row, key)) : kNone);
    }
    for (std::string cell :
         {rate(*row), ratio(sequential, seconds), ratio(before, seconds), error_text(*row), remark(*row)})
      cells.push_back(std::move(cell));
    table.cells.push_back(std::move(cells));
    if (seconds) before = seconds;
  }
  return table;
}

Table ablation_table(const std::string& size, const Rows& rows) {
  Table table{size + ": `pinned` without one optimisation",
              {left("without"), "total ms", "kernel", "total x all", "kernel x all", "max error", left("remark")},
              {}};
  std::optional<double> all, all_kernel;
  for (const Json* row : rows) {
    const std::string& without = row->at("without").as_string();
    const std::optional<double> seconds = number(*row, "seconds"), kernel = part(*row, "kernel");
    if (without.empty()) {
      all = seconds;
      all_kernel = kernel;
    }
    table.cells.push_back({without.empty() ? "(nothing)" : without, milliseconds_if_known(seconds),
                           milliseconds_if_known(kernel), ratio(seconds, all), ratio(kernel, all_kernel),
                           error_text(*row), remark(*row)});
  }
  return table;
}

Table tile_table(const std::string& size, const Rows& rows) {
  Table table{size + ": tiles of Br rows x Bc keys",
              {left("Br x Bc"), "shared bytes", "registers", "blocks/SM", "occupancy", "kernel ms", "GFLOP/s",
               "max error", left("remark")},
              {}};
  for (const Json* row : rows) {
    const std::optional<double> blocks = number(*row, "blocks"), occupancy = number(*row, "occupancy");
    const bool known = blocks.has_value();
    const auto integer = [&](const char* key) {
      return known ? fmt::format("{:.0f}", row->at(key).as_number()) : kNone;
    };
    table.cells.push_back(
        {known ? fmt::format("{} x {}", row->at("br").as_integer(), row->at("bc").as_integer()) : kNone,
         integer("shared_bytes"), integer("registers"), integer("blocks"),
         occupancy && *blocks > 0 ? fmt::format("{:.0f} %", 100 * *occupancy) : kNone,
         milliseconds_if_known(part(*row, "kernel")), rate(*row), error_text(*row), remark(*row)});
  }
  return table;
}

Table profile_table(const std::string& size, const Rows& rows) {
  Table table{size + ": hardware counters", {left("rung")}, {}};
  for (const Counter& counter : counters()) {
    table.columns.emplace_back(*counter.unit ? fmt::format("{}, {}", counter.title, counter.unit) : counter.title);
  }
  table.columns.push_back(left("remark"));
  for (const Json* row : rows) {
    std::vector<std::string> cells{row->at("rung").as_string()};
    const Json* values = row->find("counters");
    for (const Counter& counter : counters()) {
      const std::optional<double> value = values ? number(*values, counter.key) : std::nullopt;
      cells.push_back(value ? short_number(*value) : "not available");
    }
    const std::optional<double> launches = number(*row, "launches");
    cells.push_back(launches ? fmt::format("{:.0f} launch{}", *launches, *launches == 1 ? "" : "es") : remark(*row));
    table.cells.push_back(std::move(cells));
  }
  return table;
}

// Rows are rungs, columns are cases.
Table speedup_table(std::span<const Json> rows, const std::vector<std::string>& cases) {
  Table table{"Speedup over the sequential rung, by case", {left("rung")}, {}};
  std::vector<std::string> rungs;
  for (const Json& row : rows) {
    if (row.at("kind").as_string() != "rung") continue;
    const std::string& name = row.at("rung").as_string();
    if (std::find(rungs.begin(), rungs.end(), name) == rungs.end()) rungs.push_back(name);
  }
  for (const std::string& rung : rungs) table.cells.push_back({rung});
  for (const std::string& size : cases) {
    table.columns.emplace_back(size);
    const Rows here = rows_of(rows, "rung", size);
    for (std::size_t i = 0; i < rungs.size(); ++i) {
      const auto found = std::find_if(here.begin(), here.end(),
                                      [&](const Json* row) { return row->at("rung").as_string() == rungs[i]; });
      table.cells[i].push_back(found == here.end() ? kNone
                                                   : ratio(sequential_seconds(here), number(**found, "seconds")));
    }
  }
  table.columns.push_back(left(""));
  return table;
}

}  // namespace

std::string case_text(const Json& size) {
  const std::string& name = size.at("name").as_string();
  return fmt::format("{}({}, {}, {})", name.empty() ? "" : name + " ", size.at("batch").as_integer(),
                     size.at("rows").as_integer(), size.at("dim").as_integer());
}

std::vector<Table> ladder_tables(std::span<const Json> rows) {
  const std::pair<const char*, Table (*)(const std::string&, const Rows&)> kinds[] = {
      {"rung", rung_table}, {"ablation", ablation_table}, {"tiles", tile_table}, {"profile", profile_table}};
  const std::vector<std::string> cases = cases_of(rows);
  std::vector<Table> tables;
  for (const std::string& size : cases) {
    for (const auto& [kind, make] : kinds) {
      const Rows chosen = rows_of(rows, kind, size);
      if (!chosen.empty()) tables.push_back(make(size, chosen));
    }
  }
  const bool has_rungs =
      std::any_of(rows.begin(), rows.end(), [](const Json& row) { return row.at("kind").as_string() == "rung"; });
  if (cases.size() > 1 && has_rungs) tables.push_back(speedup_table(rows, cases));
  return tables;
}

}  // namespace strobe::report
