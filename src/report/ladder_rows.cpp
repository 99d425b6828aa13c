// Reads files of ladder rows. Files are untrusted, so the range of every number is checked.
#include <set>

#include "core/fail.h"
#include "core/printable.h"
#include "report/ladder.h"
#include "results/each_row.h"
#include "results/ranges.h"

namespace strobe::report {
namespace {

constexpr std::size_t kMaxLadderRows = 10'000;
constexpr std::size_t kMaxNames = 256;  // most cases, and most rungs; a table has one cell per case and rung
constexpr std::int64_t kMaxCaseSize = std::int64_t{1} << 40;

struct RangedKey {
  const char* key;
  Range range;
};
constexpr RangedKey kRowNumbers[] = {
    {"seconds", kSecondsRange}, {"flops", kFlopsRange},     {"max_error", kErrorRange},    {"blocks", kCountRange},
    {"occupancy", kShareRange}, {"registers", kCountRange}, {"shared_bytes", kCountRange}, {"launches", kCountRange},
    {"br", kCountRange},        {"bc", kCountRange}};

// Keys without a range that tables and charts read. compact_row() keeps the keys of both lists, `split`, `counters` and
// parts of `environment`.
constexpr const char* kRowWords[] = {"kind", "rung", "status", "reason", "device", "without", "case", "scaled_from"};

void check_case(const Json& size) {
  for (const char* key : {"batch", "rows", "dim"}) {
    const Json& value = size.at(key);
    if (value.is_integer() && value.as_integer() >= 1 && value.as_integer() <= kMaxCaseSize) continue;
    fail(ErrorCode::invalid_argument, "{} of the case is {}; valid: 1 to 2^40", key, printable(value.dump(), 40));
  }
}

void check_numbers(const Json& object, const Range& range) {
  for (const auto& [key, value] : object.as_object()) {
    if (!value.is_null()) checked_number(key, value, range);
  }
}

void check_ranges(const Json& row) {
  check_case(row.at("case"));
  if (const Json* from = row.find("scaled_from")) check_case(*from);
  for (const auto& [key, range] : kRowNumbers) {
    const Json* value = row.find(key);
    if (value && !value->is_null()) checked_number(key, *value, range);
  }
  if (const Json* split = row.find("split")) check_numbers(*split, kSpanRange);
  if (const Json* counters = row.find("counters")) check_numbers(*counters, kCounterRange);
}

// Returns the names of GPUs and CPU and the date from a row's environment.
Json compact_environment(const Json& environment) {
  Json gpus = Json::array();
  for (const Json& gpu : environment.at("gpu").at("gpus").as_array()) {
    gpus.push_back(Json::object({{"name", gpu.at("name")}}));
  }
  return Json::object({{"gpu", Json::object({{"gpus", std::move(gpus)}})},
                       {"cpu", Json::object({{"model", environment.at("cpu").at("model")}})},
                       {"date", environment.at("date")}});
}

Json compact_row(const Json& row) {
  Json kept = Json::object();
  const auto keep = [&](const char* key) {
    if (const Json* value = row.find(key)) kept.set(key, *value);
  };
  for (const char* key : kRowWords) keep(key);
  for (const RangedKey& number : kRowNumbers) keep(number.key);
  keep("split");
  keep("counters");
  if (const Json* environment = row.find("environment")) kept.set("environment", compact_environment(*environment));
  return kept;
}

Json checked_row(const Json& row) {
  check_ranges(row);
  Json kept = compact_row(row);
  const std::span<const Json> rows(&kept, 1);
  ladder_figures(rows);  // this and ladder_tables() throw if a key of the row's kind is missing
  if (ladder_tables(rows).empty())
    fail(ErrorCode::invalid_argument, "kind is {}; valid: rung, ablation, tiles, profile",
         printable_value(row.at("kind").as_string()));
  return kept;
}

// Collects rows, and limits the numbers of rows, cases and rungs.
class RowCollector {
 public:
  void take(const Json& row) {
    try {
      rows_.push_back(checked_row(row));
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "not a row of strobe ladder: {}", error.what());
    }
    cases_.insert(case_text(row.at("case")));
    if (const Json* rung = row.find("rung")) rungs_.insert(rung->as_string());
    if (rows_.size() > kMaxLadderRows || cases_.size() > kMaxNames || rungs_.size() > kMaxNames) {
      fail(ErrorCode::invalid_argument, "{} rows of {} cases and {} rungs; valid: up to {} of {} and {}", rows_.size(),
           cases_.size(), rungs_.size(), kMaxLadderRows, kMaxNames, kMaxNames);
    }
  }

  std::vector<Json> rows() { return std::move(rows_); }

 private:
  std::vector<Json> rows_;
  std::set<std::string> cases_, rungs_;
};

}  // namespace

std::vector<Json> read_ladder_rows(const std::string& path) {
  RowCollector collector;
  each_row_of_file(path, [&](const Json& row) { collector.take(row); });
  return collector.rows();
}

std::vector<Json> parse_ladder_rows(std::string_view text, const std::string& name) {
  RowCollector collector;
  each_row(text, name, [&](const Json& row) { collector.take(row); });
  return collector.rows();
}

}  // namespace strobe::report
