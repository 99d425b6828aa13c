// One process per rung and case, so that a failure of ncu costs one row.
#include "cli/course/ladder_profile.h"

#include <fmt/format.h>

#include "app/terminal.h"
#include "process/child.h"
#include "report/ncu_csv.h"
#include "strobe/error.h"

namespace strobe::cli {
namespace {

constexpr int kLaunches = 8;          // profiled per rung; further launches have the same shape
constexpr double kMostSeconds = 300;  // per rung

// Returns the output of ncu. Throws Error(runtime) if ncu fails without printing a reason.
std::string run_ncu(const std::vector<std::string>& command) {
  const auto [text, end] = run_to_end(command, kMostSeconds);
  const bool fine = end.signal == 0 && end.code == 0;
  if (!fine && text.find("==ERROR==") == std::string::npos && text.find("\"ID\"") == std::string::npos)
    throw Error(ErrorCode::runtime, "ncu " + end.text());
  return text;
}

// A row that was scaled from a smaller case is profiled on that case.
Json profile_rung(const std::string& lab, const Json& row) {
  const Json* scaled = row.find("scaled_from");
  const Json& size = scaled ? *scaled : row.at("case");
  const std::string& rung = row.at("rung").as_string();
  Json profile = Json::object({{"kind", "profile"}, {"rung", rung}, {"case", row.at("case")}});
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

void profile_rungs(const std::string& lab, const std::vector<Json>& rows, const std::function<void(Json)>& take) {
  for (const Json& row : rows) {
    if (row.at("kind").as_string() != "rung" || row.at("device").as_string() != "gpu") continue;
    show_progress(fmt::format("ncu: {}", row.at("rung").as_string()));
    take(profile_rung(lab, row));
  }
  show_progress("");
}

}  // namespace strobe::cli
