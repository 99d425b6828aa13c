// Functions of the CPU rungs. rungs.cpp lists them.
#pragma once

#include "lab/rung.h"

namespace strobe::lab {

Split run_sequential(const RungProblem& problem, float* o);
Split run_cpu_library(const RungProblem& problem, float* o);

}  // namespace strobe::lab
