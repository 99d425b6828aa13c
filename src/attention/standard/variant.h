// The two kernels of this folder. They share all arithmetic and differ in how many heads a pass holds and which score
// matrices share memory.
#pragma once

namespace strobe::standard {

enum class Variant {
  standard,  // all heads at once; scores, probabilities and their gradients each have memory of their own
  frugal,    // few heads at a time; softmax and its gradient work in place
};

}  // namespace strobe::standard
