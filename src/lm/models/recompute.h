// What a block's activations cost: kept from the forward to the backward, or made again there from what is kept. The
// bits are the same either way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

enum class Recompute {
  none,
  attention,  // made again: attention's norm, q, k, v and output
  block,      // made again: all but the block's input
};

std::vector<std::string> recompute_names();  // none, attention, block
const char* name_of(Recompute recompute);
Recompute recompute_of(std::string_view name);  // throws Error(invalid_argument) for another

}  // namespace strobe::lm
