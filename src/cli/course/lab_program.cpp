// Runs strobe-lab. `strobe ladder` runs it as a child. `strobe solve --rung` replaces itself with strobe-lab by exec,
// so that strobe-lab receives the signals and sets the exit code.
#include "cli/course/lab_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "app/terminal.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "process/child.h"
#include "process/spawn.h"
#include "report/ladder.h"
#include "report/ncu_csv.h"
#include "results/schema.h"
#include "strobe/error.h"

namespace strobe::cli {
namespace {

double number_or_zero(const Json* value) { return value && !value->is_null() ? value->as_number() : 0; }

std::string microseconds_per_launch(const Json& row, double launches) {
  const Json* split = row.find("split");
  const double kernel = split ? number_or_zero(split->find("kernel")) : 0;
  return kernel > 0 && !row.find("scaled_from") ? short_number(1e6 * kernel / launches) : "-";
}

std::vector<std::string> launch_cells(const Json& row, double launches) {
  const Json* scaled = row.find("scaled_from");
  return {row.at("rung").as_string(), fmt::format("{:.0f}", launches), microseconds_per_launch(row, launches),
          fmt::format("{:.0f}", number_or_zero(row.find("shared_bytes"))),
          scaled ? "case that ran: " + report::case_text(*scaled) : ""};
}

constexpr int kLaunches = 8;          // kernel launches that ncu profiles per rung; later ones have the same shape
constexpr double kMostSeconds = 300;  // time limit of ncu per rung

// Returns the output of ncu. Throws Error(runtime) if ncu fails without printing a reason.
std::string run_ncu(const std::vector<std::string>& command) {
  const auto [text, end] = run_to_end(command, kMostSeconds);
  const bool fine = end.signal == 0 && end.code == 0;
  if (!fine && text.find("==ERROR==") == std::string::npos && text.find("\"ID\"") == std::string::npos)
    throw Error(ErrorCode::runtime, "ncu " + end.text());
  return text;
}

// Profiles the rung of a row. If the row's time was scaled up from a smaller case, profiles that case.
Json profile_rung(const std::string& lab, const Json& row) {
  const Json* scaled = row.find("scaled_from");
  const Json& size = scaled ? *scaled : row.at("case");
  const std::string& rung = row.at("rung").as_string();
  Json profile =
      Json::object({{"kind", "profile"}, {kVersionKey, kRowVersion}, {"rung", rung}, {"case", row.at("case")}});
  if (scaled) profile.set("scaled_from", *scaled);
  if (const Json* environment = row.find("environment")) profile.set("environment", *environment);
  if (row.at("status").as_string() != "ok")
    return profile.set("status", "not available").set("reason", "the rung did not run");
  const std::string sizes =
      fmt::format("{},{},{}", size.at("batch").as_integer(), size.at("rows").as_integer(), size.at("dim").as_integer());
  const std::vector<std::string> command = {"ncu",
                                            "--csv",
                                            "--page",
                                            "raw",
                                            "--print-units",
                                            "base",
                                            "--launch-count",
                                            std::to_string(kLaunches),
                                            "--metrics",
                                            report::ncu_metrics(),
                                            lab,
                                            "--once",
                                            "--rungs",
                                            rung,
                                            "--case",
                                            sizes};
  profile.set("command", fmt::format("{}", fmt::join(command, " ")));
  try {
    const Json counters = report::read_ncu_csv(run_ncu(command));
    return profile.set("status", "ok")
        .set("launches", counters.at("launches"))
        .set("counters", counters.at("counters"));
  } catch (const Error& error) {
    return profile.set("status", "not available").set("reason", error.what());
  }
}

}  // namespace

std::string lab_program() {
  const std::filesystem::path folder = this_program().parent_path(), lab = folder / "strobe-lab";
  std::error_code error;
  if (!std::filesystem::exists(lab, error)) {
    fail(ErrorCode::unsupported, "there is no program strobe-lab in {}: build target strobe_lab_program",
         folder.string());
  }
  return lab.string();
}

std::vector<Table> launch_tables(std::span<const Json> rows) {
  std::vector<Table> tables;
  for (const Json& row : rows) {
    const double launches = number_or_zero(row.find("launches"));
    if (row.at("kind").as_string() != "rung" || launches == 0) continue;
    const std::string title = report::case_text(row.at("case")) + ": kernel launches";
    auto table = std::find_if(tables.begin(), tables.end(), [&](const Table& one) { return one.title == title; });
    if (table == tables.end()) {
      table = tables.insert(
          tables.end(),
          {title, {left("rung"), "launches", "kernel us per launch", "shared bytes per block", left("remark")}, {}});
    }
    table->cells.push_back(launch_cells(row, launches));
  }
  return tables;
}

void profile_rungs(const std::string& lab, const std::vector<Json>& rows, const std::function<void(Json)>& take) {
  for (const Json& row : rows) {
    if (row.at("kind").as_string() != "rung" || row.at("device").as_string() != "gpu") continue;
    show_progress(fmt::format("ncu: {}", row.at("rung").as_string()));
    take(profile_rung(lab, row));
  }
  show_progress("");
}

}  // namespace strobe::cli
