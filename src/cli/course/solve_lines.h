// What solve and hw4 say: their last words, should a signal end them, and lines of a solved file.
#pragma once

#include <string>
#include <string_view>

#include "solve/solve.h"

namespace strobe::cli {

// solve::solve_file, where a signal in the middle is answered with one line; `command` stands before it.
solve::Solved solve_with_last_words(std::string_view command, const std::string& input, const std::string& output,
                                    const solve::SolveOptions& options = {});

// "(B, N, d): (20, 1024, 64)" and "Time: 0.123 seconds", the time without the files.
std::string solve_lines(const solve::Solved& solved);

// The stages, then what is not counted; `start` is seconds from the start of the process to main.
std::string timing_lines(const solve::Solved& solved, double start);

}  // namespace strobe::cli
