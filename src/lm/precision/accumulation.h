// The same thousand additions in different types: why sums of half floats are kept in fp32.
#pragma once

#include <string>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

struct Accumulation {
  DType term, sum;       // types of 0.01 and of what it is added to
  bool widened = false;  // the term was made fp32 before it was added
  double result = 0;
};

// fp32 into fp32, fp16 into fp16, fp16 into fp32, fp16 widened into fp32; each sum is rounded to its type every time.
std::vector<Accumulation> accumulate_hundredths(int additions = 1000);

}  // namespace strobe::lm
