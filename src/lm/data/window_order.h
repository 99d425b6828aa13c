// The order in which training sees the windows of its data: each epoch a permutation of them, by seed and epoch. Any
// position can be asked for, so that one number is all that a checkpoint keeps of it.
#pragma once

#include <cstdint>

namespace strobe::lm {

class WindowOrder {
 public:
  WindowOrder(std::uint64_t seed, std::int64_t windows);  // windows: at least 1

  // The window at a position; positions count from 0 through all epochs.
  std::int64_t at(std::int64_t position) const;

 private:
  std::uint64_t seed_;
  std::uint64_t windows_;
  int half_bits_;  // of a number below windows, rounded up to two equal halves
};

}  // namespace strobe::lm
