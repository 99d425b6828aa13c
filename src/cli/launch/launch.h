// Ranks on this machine: `strobe launch` and `strobe comm`. main.cpp calls; each returns the exit code.
#pragma once

#include "app/program.h"

namespace strobe::cli {

// `check_command` throws Error(invalid_argument) unless strobe has a command of that name.
int run_launch(Arguments arguments, void (*check_command)(std::string_view name));
int run_comm(Arguments arguments);

}  // namespace strobe::cli
