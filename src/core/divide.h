// Division of whole numbers upwards.
#pragma once

#include <cstdint>

namespace strobe {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace strobe
