// What solve and hw4 print of a solved file.
#pragma once

#include <string>

#include "solve/solve.h"

namespace strobe::cli {

// "(B, N, d): (20, 1024, 64)" and "Time: 0.123 seconds", the time without the files.
std::string solve_lines(const solve::Solved& solved);

// The stages, then what is not counted; `start` is seconds from the start of the process to main.
std::string timing_lines(const solve::Solved& solved, double start);

}  // namespace strobe::cli
