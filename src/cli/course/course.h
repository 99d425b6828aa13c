// The course's problems and its ladder of kernels: `strobe solve`, `cases`, `ladder`. main.cpp calls; each returns the
// exit code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

int run_solve(Arguments arguments);
int run_cases(Arguments arguments);
int run_cases_gen(Arguments arguments);
int run_cases_check(Arguments arguments);
int run_cases_judge(Arguments arguments);
int run_ladder(Arguments arguments);

}  // namespace strobe::cli
