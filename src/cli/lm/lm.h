// `strobe lm`, its commands, and `strobe precision`. main.cpp and lm.cpp call; each returns the exit code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

int run_lm(Arguments arguments);
int run_precision(Arguments arguments);
int run_lm_bench(Arguments arguments);
int run_lm_memory(Arguments arguments);
int run_lm_profile(Arguments arguments);
int run_lm_train(Arguments arguments);
int run_lm_sample(Arguments arguments);

}  // namespace strobe::cli
