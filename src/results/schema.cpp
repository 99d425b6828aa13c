// Converts rows of the old form by the unit at the end of each key.
#include "results/schema.h"

#include <algorithm>
#include <string_view>

#include "core/fail.h"
#include "core/short_number.h"

namespace strobe {
namespace {

struct Ending {
  std::string_view old, now;
  double factor = 1;
};

constexpr Ending kEndings[] = {{"(s)", "_s"},
                               {"(ms)", "_s", 1e-3},
                               {"bucket(MB)", "bucket_bytes", 1e6},
                               {"(B)", "_bytes"},
                               {"(MB)", "_bytes", 1 << 20},
                               {"(GB/s)", "_bytes_per_s", 1e9},
                               {"(%)", "", 0.01},
                               {"(FLOP/s)", "_flop_per_s"},
                               {"(B/s)", "_bytes_per_s"},
                               {"FLOP/s", "flop_per_s"},
                               {"tokens/s", "tokens_per_s"},
                               {"samples/s", "samples_per_s"},
                               {"FLOP", "flop"},
                               {"threads of a rank", "threads_per_rank"}};

// Returns true for a key of the reproduced reports, which keeps its name. At depth 0, "time(s)" is a key of old rows of
// collectives and plans instead.
bool is_of_source(std::string_view key, int depth) {
  return depth == 0 ? key == "peak_memory_usage(MB)" : key == "time(s)" || key == "FLOPS(TFLOPs/s)";
}

Json scaled(const Json& value, double factor) {
  if (value.is_number()) return factor == 1 ? value : Json(factor * value.as_number());
  Json::Array items;
  Json::Object members;
  if (value.is_array()) {
    for (const Json& item : value.as_array()) items.push_back(scaled(item, factor));
    return Json::array(std::move(items));
  }
  if (!value.is_object()) return value;
  for (const auto& [key, inner] : value.as_object()) members.emplace_back(key, scaled(inner, factor));
  return Json::object(std::move(members));
}

Json converted(const Json& value, int depth) {
  if (value.is_array()) {
    Json::Array items;
    for (const Json& item : value.as_array()) items.push_back(converted(item, depth + 1));
    return Json::array(std::move(items));
  }
  if (!value.is_object()) return value;
  Json::Object members;
  for (const auto& member : value.as_object()) {
    const std::string& key = member.first;  // not a structured binding: clang 14 cannot capture one
    const Json& inner = member.second;
    const auto* ending = std::ranges::find_if(kEndings, [&](const Ending& one) { return key.ends_with(one.old); });
    std::string name = key;
    Json now = converted(inner, depth + 1);
    if (ending != std::end(kEndings) && !is_of_source(key, depth)) {
      name.replace(key.size() - ending->old.size(), ending->old.size(), ending->now);
      now = scaled(now, ending->factor);
    }
    if (name.starts_with("part ")) name[4] = '_';
    if (depth == 0 && name == "error") name = "reason";
    members.emplace_back(std::move(name), std::move(now));
  }
  return Json::object(std::move(members));
}

const Json* find_path(const Json& row, std::string_view path) {
  const Json* value = &row;
  while (value && !path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    value = value->find(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return value;
}

std::string cell_of(const RowColumn& column, const Json& row, bool is_fine) {
  const Json* value = find_path(row, column.key);
  if (!value || value->is_null()) return column.heading.is_left || !is_fine ? "" : column.missing;
  return column.text ? column.text(*value) : value->is_string() ? value->as_string() : value->dump();
}

}  // namespace

Json converted_row(Json row) {
  const Json* version = row.is_object() ? row.find(kVersionKey) : nullptr;
  if (!version) return converted(row, 0);
  if (!version->is_integer() || version->as_integer() != kRowVersion) {
    fail(ErrorCode::invalid_argument, "{} is {}; valid: {}", kVersionKey, version->dump(), kRowVersion);
  }
  return row;
}

Json summary_json(const Summary& seconds) {
  return Json::object({{"n", seconds.n},
                       {"mean_s", seconds.mean},
                       {"median_s", seconds.median},
                       {"min_s", seconds.min},
                       {"max_s", seconds.max},
                       {"stddev_s", seconds.stddev},
                       {"interval_s", Json::array({seconds.low, seconds.high})},
                       {"confidence", seconds.confidence},
                       {"relative_half_width", seconds.relative_half_width()},
                       {"spread", seconds.spread}});
}

Table table_of_rows(std::span<const RowColumn> identity, std::span<const RowColumn> figures,
                    std::span<const Json> rows) {
  Table table;
  for (const auto columns : {identity, figures}) {
    for (const RowColumn& column : columns) {
      if (!column.heading.title.empty()) table.columns.push_back(column.heading);
    }
  }
  for (const Json& row : rows) {
    std::vector<std::string>& cells = table.cells.emplace_back();
    const Json* status = row.find("status");
    const bool is_fine = !status || status->as_string() == "ok";
    for (const RowColumn& column : identity) {
      if (!column.heading.title.empty()) cells.push_back(cell_of(column, row, true));
    }
    const std::size_t first = cells.size();
    for (const RowColumn& column : figures) {
      if (!column.heading.title.empty()) cells.push_back(cell_of(column, row, is_fine));
    }
    if (!is_fine) cells.at(first) = status->as_string();
  }
  return table;
}

std::function<std::string(const Json&)> short_text(double factor) {
  return [=](const Json& value) { return short_number(factor * value.as_number()); };
}

std::function<std::string(const Json&)> number_text(const char* format, double factor) {
  return [=](const Json& value) { return fmt::format(fmt::runtime(format), factor * value.as_number()); };
}

}  // namespace strobe
