// The two kernels of this folder. Both do the same arithmetic. The variants differ in the number of heads per pass and
// in which score matrices share memory.
#pragma once

namespace strobe::standard {

enum class Variant {
  standard,  // all heads at once; scores, probabilities and their gradients each have separate memory
  frugal,    // few heads at a time; softmax and its gradient work in place
};

}  // namespace strobe::standard
