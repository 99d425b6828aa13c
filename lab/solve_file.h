// Runs one rung on a problem file, for `strobe solve --rung`. Used by main.cpp.
#pragma once

#include <string>

#include "lab/rung.h"

namespace strobe::lab {

// Returns the lines to print: "(B, N, d): (...)", "Time: ... seconds" without file I/O, and with `timing` the split.
// Throws Error and then leaves no output file.
std::string solve_file(const Rung& rung, const std::string& input, const std::string& output, bool timing);

}  // namespace strobe::lab
