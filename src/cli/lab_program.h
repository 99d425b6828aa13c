// The ladder's own program, strobe-lab, which lies beside this one. `ladder` runs it, `solve --rung` becomes it.
#pragma once

#include <string>
#include <vector>

namespace strobe::cli {

// Its path. Throws Error(unsupported) where it was not built.
std::string lab_program();

// Goes on as strobe-lab with these arguments: its exit code is ours. Returns only by throwing Error(runtime).
[[noreturn]] void become_lab(std::vector<std::string> arguments);

}  // namespace strobe::cli
