// Defines --seed, --quick and --threads once for all commands that have them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/options.h"

namespace strobe {

// The seed is an integer from 0 to 2^63 - 1.
Option make_seed_option(std::function<void(std::uint64_t seed)> apply);

// With --quick the command does not measure the machine's rates; nothing else changes.
Option make_quick_option(bool& target);

// `help` describes what the threads do; the default is appended to it.
Option make_threads_option(std::string help, std::optional<int>& target);

// Returns the flag's value if it was given, else STROBE_THREADS, else the number of available cores. Throws
// Error(invalid_argument) if the variable is not valid, so call it after all flags are parsed.
int threads_of(std::optional<int> flag);

}  // namespace strobe
