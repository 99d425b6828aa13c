// Bench as a child process: one of several launches, or a run whose events a sweep reads. bench.cpp uses it.
#pragma once

#include <string>
#include <vector>

#include "app/program.h"
#include "bench/runner.h"
#include "core/json.h"

namespace strobe::cli {

// Flag of the processes of --launches: one launch with its rows on standard output. Overrides other flags.
inline constexpr const char* kLaunchFlag = "launch";

struct LaunchedRows {
  int code;   // code of the first launch that failed, which has printed the reason; else kFine
  Json rows;  // list of all rows in launch order, each with "launch"
};

// Runs the same command N times, one process after the other; `strobe compare` needs rows of several processes.
// `command` repeats the whole run and is in every row.
LaunchedRows run_launches(Arguments arguments, int launches, const std::string& command);

// `strobe bench --events`: JSON lines on standard output, which `strobe sweep` reads (bench/sweep/problem_runner.h).
//   {"environment": {...}}                           first
//   {"step": "check", "implementation": "flash2"}    sent when a step begins; "" if it concerns all implementations
//   {"row": {...}}                                   as soon as it is known, with any status
inline constexpr const char* kEventsFlag = "events";

// Runs the cases and prints one row per implementation of each. Returns exit code 0: the rows report failures.
int print_events(const std::vector<bench::Case>& cases, const bench::Implementations& implementations,
                 bench::RunOptions options, const bench::RunRecord& record);

}  // namespace strobe::cli
