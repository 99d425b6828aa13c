// Output lines of solve and hw4 for a solved file, and the message of a signal.
#pragma once

#include <string>
#include <string_view>

#include "solve/solve.h"

namespace strobe::cli {

// Calls solve::solve_file with a signal message that begins with `command`.
solve::Solved solve_with_signal_message(std::string_view command, const std::string& input, const std::string& output,
                                        const solve::SolveOptions& options = {});

// "(B, N, d): (20, 1024, 64)" and "Time: 0.123 seconds"; the time excludes file access.
std::string solve_lines(const solve::Solved& solved);

// Times of the stages, then the parts that are not counted. `start` is the seconds from the start of the process to
// main.
std::string timing_lines(const solve::Solved& solved, double start);

}  // namespace strobe::cli
