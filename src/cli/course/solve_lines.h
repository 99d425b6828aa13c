// Output of solve and hw4: the lines of a solved file, and the message of a signal.
#pragma once

#include <string>
#include <string_view>

#include "solve/solve.h"

namespace strobe::cli {

// solve::solve_file with a signal message; `command` begins it.
solve::Solved solve_with_signal_message(std::string_view command, const std::string& input, const std::string& output,
                                        const solve::SolveOptions& options = {});

// "(B, N, d): (20, 1024, 64)" and "Time: 0.123 seconds", the time without the files.
std::string solve_lines(const solve::Solved& solved);

// The stages, then what is not counted; `start` is seconds from the start of the process to main.
std::string timing_lines(const solve::Solved& solved, double start);

}  // namespace strobe::cli
