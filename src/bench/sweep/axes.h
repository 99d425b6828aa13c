// Axes of a sweep as text: flags of bench, each with a list of values. bench's parser interprets the values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::bench {

struct Axis {
  std::string flag;  // spelled as in the help, without dashes: "seq_len"
  std::vector<std::string> values;
};

// Splits a command-line value at commas. --causal's "both" is off and on; empty text is "on". --impl and --lengths take
// lists themselves and stay whole. Throws Error(invalid_argument) for an empty or repeated item.
Axis make_axis(std::string flag, std::string_view value);

// Replaces the axis with the same flag, or appends.
void set_axis(std::vector<Axis>& axes, Axis axis);

// One value per axis: flag and value.
using Combination = std::vector<std::pair<std::string, std::string>>;

// All combinations; the last axis varies fastest. Throws Error(invalid_argument) above 100,000.
std::vector<Combination> product_of(const std::vector<Axis>& axes);

}  // namespace strobe::bench
