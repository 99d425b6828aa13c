// `strobe bench --events`: a run told to a program, as JSON lines on the standard output. `strobe sweep` listens
// (bench/sweep/problem_runner.h).
//   {"environment": {...}}                           first
//   {"step": "check", "implementation": "flash2"}    what begins; "" where it concerns all implementations
//   {"row": {...}}                                   the moment it is known, whatever its status
#pragma once

#include <vector>

#include "bench/runner.h"

namespace strobe::cli {

inline constexpr const char* kEventsFlag = "events";

// Runs the cases; one row for every implementation of each. Returns the exit code, 0: rows tell what went wrong.
int tell_events(const std::vector<bench::Case>& cases, const bench::Implementations& implementations,
                bench::RunOptions options, const bench::RunRecord& record);

}  // namespace strobe::cli
