// The operations of plain attention on the heads of a pass. Each processes all heads before the next one begins.
#pragma once

#include "attention/standard/cpu/head.h"

namespace strobe::standard::cpu {

// Query heads [first, first + count), counted through all sequences.
struct HeadRange {
  std::int64_t first, count;
};

void forward_pass(const Call& call, HeadRange heads);

// A pass of one head adds to the sums of dK and dV that the previous head of its group left.
void backward_pass(const Call& call, HeadRange heads);

}  // namespace strobe::standard::cpu
