// Numbers for people: three significant digits, never an exponent.
#pragma once

#include <string>

namespace strobe {

// "0.00123", "12.3", "4690"; "0" for what is not finite.
std::string short_number(double value);

}  // namespace strobe
