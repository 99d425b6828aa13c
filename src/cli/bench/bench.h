// Measures configurations on this machine: `strobe bench`, `explain`, `env`. main.cpp calls; each returns the exit
// code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

int run_bench(Arguments arguments);
int run_explain(Arguments arguments);
int run_env(Arguments arguments);

}  // namespace strobe::cli
