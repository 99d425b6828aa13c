// The three parts of `strobe cases`: gen, check, judge. cases.cpp calls.
#pragma once

#include "cli/commands.h"

namespace strobe::cli {

int run_cases_gen(Arguments arguments);
int run_cases_check(Arguments arguments);
int run_cases_judge(Arguments arguments);

}  // namespace strobe::cli
