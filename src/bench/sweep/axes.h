// Axes of a sweep as text: flags of bench, each with a list of values. What the values mean, bench's own parser knows.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::bench {

struct Axis {
  std::string flag;  // as the help spells it, without dashes: "seq_len"
  std::vector<std::string> values;
};

// Splits a value of the command line: commas separate values, --causal's "both" is off and on, and no text at all is
// "on". --impl and --lengths take lists themselves and stay whole. Throws Error(invalid_argument) for an empty item or
// one that is there twice.
Axis make_axis(std::string flag, std::string_view value);

// Puts the axis in the place of one with the same flag, or behind the others.
void set_axis(std::vector<Axis>& axes, Axis axis);

// One choice of a value for every axis: flag and value.
using Combination = std::vector<std::pair<std::string, std::string>>;

// All of them; the last axis varies fastest. Throws Error(invalid_argument) where there are more than 100,000.
std::vector<Combination> product_of(const std::vector<Axis>& axes);

}  // namespace strobe::bench
