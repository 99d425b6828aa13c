// --seed and --quick: defined once, the same in every command that has them.
#pragma once

#include <cstdint>
#include <functional>

#include "app/options.h"

namespace strobe {

// A whole number from 0 to 2^63 - 1.
Option make_seed_option(std::function<void(std::uint64_t seed)> apply);

// Skips measuring the machine's rates and changes nothing else.
Option make_quick_option(bool& target);

}  // namespace strobe
