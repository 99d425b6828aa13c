// Bench as a child process: one of several launches, or a run whose events a sweep reads. bench.cpp calls.
#pragma once

#include <string>
#include <vector>

#include "app/program.h"
#include "bench/runner.h"
#include "core/json.h"

namespace strobe::cli {

// Flag of the processes of --launches: one launch, rows on standard output, whatever other flags say.
inline constexpr const char* kLaunchFlag = "launch";

struct LaunchedRows {
  int code;   // of the first launch that failed, which has printed why; else kFine
  Json rows;  // a list of all rows, launch by launch, each with "launch"
};

// Runs the same command N times, one process after the other. A process has one memory layout and one moment for all of
// its samples; `strobe compare` needs several. `command` repeats all of it and is in every row.
LaunchedRows run_launches(Arguments arguments, int launches, const std::string& command);

// `strobe bench --events`: JSON lines on standard output, which `strobe sweep` reads (bench/sweep/problem_runner.h).
//   {"environment": {...}}                           first
//   {"step": "check", "implementation": "flash2"}    what begins; "" if it concerns all implementations
//   {"row": {...}}                                   when it is known, whatever its status
inline constexpr const char* kEventsFlag = "events";

// Runs the cases; one row for every implementation of each. Returns the exit code, 0: rows tell what went wrong.
int print_events(const std::vector<bench::Case>& cases, const bench::Implementations& implementations,
                 bench::RunOptions options, const bench::RunRecord& record);

}  // namespace strobe::cli
