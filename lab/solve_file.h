// One rung on a problem file: what `strobe solve --rung` runs. main.cpp calls.
#pragma once

#include <string>

#include "lab/rung.h"

namespace strobe::lab {

// What was done, for people: "(B, N, d): (...)", "Time: ... seconds" without file I/O, and with `timing` the split.
// Throws Error; no output file is left behind then.
std::string solve_file(const Rung& rung, const std::string& input, const std::string& output, bool timing);

}  // namespace strobe::lab
