// --seed, --quick and --threads: defined once, the same in every command that has them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/options.h"

namespace strobe {

// A whole number from 0 to 2^63 - 1.
Option make_seed_option(std::function<void(std::uint64_t seed)> apply);

// Skips measuring the machine's rates and changes nothing else.
Option make_quick_option(bool& target);

// `help` describes what the threads are for; the default is appended.
Option make_threads_option(std::string help, std::optional<int>& target);

// Returns the flag if it was given, else STROBE_THREADS, else the number of cores. Throws Error(invalid_argument) if
// the variable is not a number, so call it after all flags are parsed.
int threads_of(std::optional<int> flag);

}  // namespace strobe
