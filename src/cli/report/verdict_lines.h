// The last lines of `bench`, `sweep` and `report`: the verdict, and the next command to try.
#pragma once

#include <span>
#include <string>

#include "app/terminal.h"
#include "report/cells.h"
#include "report/verdict.h"

namespace strobe::cli {

report::Standing standing_of(std::span<const report::Cell> cells);

// Returns "verdict: ...\nnext: ...\n". Leaves out the verdict if there is nothing to compare, and `next` if it is
// empty. `kind` is that of the line `next`.
std::string verdict_lines(const report::Standing& standing, const std::string& next, Line kind = Line::command);

}  // namespace strobe::cli
