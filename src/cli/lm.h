// The commands of `strobe lm`, one file each. lm.cpp calls.
#pragma once

#include "cli/commands.h"

namespace strobe::cli {

int run_lm_bench(Arguments arguments);
int run_lm_memory(Arguments arguments);
int run_lm_profile(Arguments arguments);
int run_lm_train(Arguments arguments);
int run_lm_sample(Arguments arguments);

}  // namespace strobe::cli
