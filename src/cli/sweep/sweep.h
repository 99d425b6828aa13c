// `strobe sweep`. main.cpp calls; each returns the exit code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

int run_sweep(Arguments arguments);

}  // namespace strobe::cli
