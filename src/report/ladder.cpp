// The table: times in milliseconds, speed-up over the sequential rung and over the one before, error, remarks.
#include "report/ladder.h"

#include <fmt/format.h>

#include "core/short_number.h"
#include "core/text_table.h"
#include "report/markdown.h"

namespace strobe::report {
namespace {

std::string size_text(const Json& size) {
  const std::string& name = size.at("name").as_string();
  return fmt::format("{}({}, {}, {})", name.empty() ? "" : name + " ", size.at("batch").as_integer(),
                     size.at("rows").as_integer(), size.at("dim").as_integer());
}

std::optional<double> number(const Json& object, const char* key) {
  const Json* found = object.find(key);
  if (!found || found->is_null()) return std::nullopt;
  return found->as_number();
}

std::string text_of(const Json& object, const char* key) {
  const Json* found = object.find(key);
  return found ? found->as_string() : "";
}

std::string milliseconds(const std::optional<double>& seconds) { return seconds ? short_number(1e3 * *seconds) : "-"; }

std::string ratio(const std::optional<double>& base, const std::optional<double>& seconds) {
  return base && seconds && *seconds > 0 ? short_number(*base / *seconds) : "-";
}

constexpr std::size_t kTextColumns = 1;
const std::vector<std::string> kTitles = {"rung",    "total ms",     "to GPU ms", "kernel ms", "to host ms", "setup ms",
                                          "GFLOP/s", "x sequential", "x before",  "max error", "remark"};

std::string remark(const LadderRow& row) {
  if (row.status != "ok") return row.status + (row.reason.empty() ? "" : ": " + row.reason);
  return row.scaled_from.empty() ? "" : "scaled from " + row.scaled_from;
}

std::vector<std::vector<std::string>> cells_of(std::span<const LadderRow> rows) {
  std::optional<double> sequential, before;
  for (const LadderRow& row : rows) {
    if (row.rung == "sequential") sequential = row.seconds;
  }
  std::vector<std::vector<std::string>> cells;
  for (const LadderRow& row : rows) {
    cells.push_back({row.rung, milliseconds(row.seconds), milliseconds(row.to_device), milliseconds(row.kernel),
                     milliseconds(row.to_host), milliseconds(row.setup),
                     row.kernel && *row.kernel > 0 ? short_number(1e-9 * row.flops / *row.kernel) : "-",
                     ratio(sequential, row.seconds), ratio(before, row.seconds),
                     row.error ? fmt::format("{:.1e}", *row.error) : "-", remark(row)});
    if (row.seconds) before = row.seconds;
  }
  return cells;
}

}  // namespace

std::vector<LadderRow> read_ladder(std::span<const Json> rows) {
  std::vector<LadderRow> ladder;
  for (const Json& json : rows) {
    if (json.at("kind").as_string() != "rung") continue;
    LadderRow row{.rung = json.at("rung").as_string(),
                  .idea = json.at("idea").as_string(),
                  .status = json.at("status").as_string(),
                  .reason = text_of(json, "reason"),
                  .size = size_text(json.at("case")),
                  .scaled_from = {},
                  .flops = json.at("flops").as_number(),
                  .error = number(json, "max_error"),
                  .seconds = number(json, "seconds"),
                  .kernel = {},
                  .to_device = {},
                  .to_host = {},
                  .setup = {}};
    if (const Json* from = json.find("scaled_from")) row.scaled_from = size_text(*from);
    if (const Json* split = json.find("split")) {
      row.kernel = number(*split, "kernel");
      if (text_of(json, "device") == "gpu") {
        row.to_device = number(*split, "to_device");
        row.to_host = number(*split, "to_host");
        row.setup = split->at("allocate").as_number() + split->at("create").as_number() + split->at("pin").as_number();
      }
    }
    ladder.push_back(std::move(row));
  }
  return ladder;
}

std::string ladder_table(std::span<const LadderRow> rows) {
  if (rows.empty()) return "";
  TextTable table;
  for (std::size_t i = 0; i < kTitles.size(); ++i) {
    const bool left = i < kTextColumns || i + 1 == kTitles.size();
    table.add_column(kTitles[i], left ? TextTable::Align::left : TextTable::Align::right);
  }
  for (std::vector<std::string>& cells : cells_of(rows)) table.add_row(std::move(cells));
  return rows.front().size + "\n" + table.text();
}

std::string ladder_markdown(std::span<const LadderRow> rows) {
  if (rows.empty()) return "";
  return "Case " + markdown_text(rows.front().size) + "\n\n" + markdown_table(kTitles, cells_of(rows), kTextColumns);
}

}  // namespace strobe::report
