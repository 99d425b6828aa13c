// Result files: `strobe report` and `strobe compare`. main.cpp calls; each returns the exit code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

int run_report(Arguments arguments);
int run_compare(Arguments arguments);

}  // namespace strobe::cli
