// The form of a result row: a JSON object with snake_case keys, in SI units. A key ends with its unit: "step_s",
// "peak_bytes", "copy_bytes_per_s". The keys that the plotting code of the reproduced reports reads keep their names
// and units: "peak_memory_usage(MB)", and "time(s)" and "FLOPS(TFLOPs/s)" of a pass.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/statistics.h"
#include "results/table.h"

namespace strobe {

inline constexpr const char* kVersionKey = "schema";
inline constexpr int kRowVersion = 2;

// Converts a row of the old form, which has no version: "median(ms)": 2 becomes "median_s": 0.002. Returns other rows
// as they are. Throws Error(invalid_argument) for a row of a later version.
Json converted_row(Json row);

// A column of tables of rows. `key` is a path in the JSON row, such as "whole.peak_bytes".
struct RowColumn {
  std::string key;
  Heading heading{""};                             // "": not in tables
  std::function<std::string(const Json&)> text{};  // formats a value; absent: unchanged
  const char* missing = "-";                       // shown for a missing number
};

// Returns the table of rows: the columns `identity`, then `figures`. The first figure of a row that failed is its
// status.
Table table_of_rows(std::span<const RowColumn> identity, std::span<const RowColumn> figures,
                    std::span<const Json> rows);

// Text of a number times `factor`: number_text("{:.1f}", 1e3) shows seconds in ms; short_text() formats as
// short_number() does.
std::function<std::string(const Json&)> short_text(double factor = 1);
std::function<std::string(const Json&)> number_text(const char* format, double factor = 1);

// A column and the function that computes its value when a row is written. Without `value`, only tables have the
// column.
template <class Row>
struct Column : RowColumn {
  std::function<Json(const Row&)> value{};

  Column(std::string key, Heading heading, std::function<Json(const Row&)> value,
         std::function<std::string(const Json&)> text = {})
      : RowColumn{std::move(key), std::move(heading), std::move(text)}, value(std::move(value)) {}
};

// A type of rows that Strobe writes. One list of columns defines both the JSON row and the table of such rows, for new
// results and for results from a file.
template <class Row>
struct RowType {
  std::string kind{};  // first key of a row, unless empty: files of such rows are recognised by it
  std::function<void(Json&, const Row&)> begin;  // sets the identity, "status", and "reason" unless the status is "ok"
  std::vector<RowColumn> identity;               // columns of what `begin` sets
  std::vector<Column<Row>> figures;              // of rows with the status "ok"

  Json json(const Row& row) const {
    Json json = Json::object({});
    if (!kind.empty()) json.set("kind", kind);
    json.set(kVersionKey, kRowVersion);
    begin(json, row);
    for (const Column<Row>& column : figures) {
      if (column.value && json.at("status").as_string() == "ok") json.set(column.key, column.value(row));
    }
    return json;
  }

  Table table(std::span<const Json> rows) const {
    return table_of_rows(identity, std::vector<RowColumn>(figures.begin(), figures.end()), rows);
  }
};

// Statistics of times, under keys that end with _s.
Json summary_json(const Summary& seconds);

template <class T>
Json json_if(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace strobe
