// Two modes of `strobe bench`: --launches repeats the run in child processes, and --events prints events for a sweep.
#pragma once

#include <string>
#include <vector>

#include "app/program.h"
#include "bench/runner.h"
#include "core/json.h"

namespace strobe::cli {

// Internal flag of the child processes of --launches. The process does one launch and writes its rows to standard
// output, whatever --launches and --output say.
inline constexpr const char* kLaunchFlag = "launch";

struct LaunchedRows {
  int code;   // exit code of the first launch that failed, which has printed the reason; else kFine
  Json rows;  // all rows in launch order, each with a member "launch"
};

// Runs the same command N times, one process after the other; `strobe compare` needs rows of several processes.
// `command` is written to every row; it repeats the whole run.
LaunchedRows run_launches(Arguments arguments, int launches, const std::string& command);

// `strobe bench --events`: JSON lines on standard output, which `strobe sweep` reads (bench/sweep/problem_runner.h).
//   {"environment": {...}}                           first
//   {"step": "check", "implementation": "flash2"}    sent when a step begins; implementation "": all
//   {"row": {...}}                                   sent as soon as the row is known, with any status
inline constexpr const char* kEventsFlag = "events";

// Runs the cases and prints one row per case and implementation. Always returns exit code 0; the rows report failures.
int print_events(const std::vector<bench::AttentionCase>& cases, const bench::Implementations& implementations,
                 bench::RunOptions options, const bench::RunRecord& record);

}  // namespace strobe::cli
