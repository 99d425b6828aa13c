// Numbers for people, never with an exponent.
#pragma once

#include <string>

namespace strobe {

// Three significant digits: "0.00123", "12.3", "4690"; "0" for a value that is not finite.
std::string short_number(double value);

// A mean of counts: "1200000"; "0.33" if it is not an integer.
std::string count_text(double mean);

}  // namespace strobe
