// --threads N of every command that has it.
#pragma once

#include <optional>
#include <string>

#include "app/options.h"

namespace strobe {

// The help is what they are for, before the default.
Option make_threads_option(std::string help, std::optional<int>& target);

// What was said, or else STROBE_THREADS, or else the cores. Throws Error(invalid_argument) where the variable is no
// number, so it is called once all flags are parsed.
int threads_of(std::optional<int> said);

}  // namespace strobe
