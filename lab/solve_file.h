// Runs one rung on a problem file, as `strobe solve --rung` does. Used by main.cpp.
#pragma once

#include <string>

#include "lab/rung.h"

namespace strobe::lab {

// Returns the lines to print: "(B, N, d): (...)", "Time: ... seconds" (without file I/O), and with `timing` the times
// of all stages. If it throws Error, it leaves no output file.
std::string solve_file(const Rung& rung, const std::string& input, const std::string& output, bool timing);

}  // namespace strobe::lab
