// The ladder's program, strobe-lab, in the directory of this one. `ladder` runs it as a child; `solve --rung` execs it.
#pragma once

#include <string>
#include <vector>

namespace strobe::cli {

// Path of strobe-lab. Throws Error(unsupported) if it was not built.
std::string lab_program();

// Replaces this process by strobe-lab with these arguments. Throws Error(runtime) if that fails.
[[noreturn]] void become_lab(std::vector<std::string> arguments);

}  // namespace strobe::cli
