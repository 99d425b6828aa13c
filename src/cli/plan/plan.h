// `strobe plan`. main.cpp calls; each returns the exit code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

int run_plan(Arguments arguments);

}  // namespace strobe::cli
