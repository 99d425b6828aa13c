// Solves a file and formats the output lines, for `strobe solve` and hw4.
#pragma once

#include <string>
#include <string_view>

#include "solve/solve.h"

namespace strobe::cli {

// Calls solve::solve_file with a signal message that begins with `command`.
solve::Solved solve_with_signal_message(std::string_view command, const std::string& input, const std::string& output,
                                        const solve::SolveOptions& options = {});

// Returns "(B, N, d): (20, 1024, 64)" and "Time: 0.123 seconds"; the time excludes file access.
std::string solve_lines(const solve::Solved& solved);

// Returns the times of the stages, then the times that solve_lines() does not include. `start` is the time in seconds
// from the start of the process to main().
std::string timing_lines(const solve::Solved& solved, double start);

}  // namespace strobe::cli
