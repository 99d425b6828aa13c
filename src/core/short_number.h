// Formats numbers without an exponent, for messages and tables.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

// Uses as many decimals as three significant digits need, at most 9: "0.00123", "12.3", "4690". Returns "0" for a value
// that is not finite.
std::string short_number(double value);

// Formats a mean of counts: "1200000" if it is an integer, else two decimals, "0.33".
std::string count_text(double mean);

std::string bytes_text(std::size_t bytes);        // "1.50 GiB", "3.0 MiB", "640 B"
std::string exact_bytes_text(std::size_t bytes);  // "37.11 GiB (39850000000 bytes)"

}  // namespace strobe
