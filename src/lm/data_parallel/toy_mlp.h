// A small model whose linear layers have biases, unlike those of llama: fc1, ReLU, fc2 and mean squared error.
// verify.cpp trains it on several ranks and in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lm/data_parallel/strategy.h"

namespace strobe::lm {

class ToyMlp {
 public:
  ToyMlp();

  // Generates samples [first, first + count) of an endless random data set, computes the gradients of their mean
  // loss, and returns the loss. Calls `ready` with the index of each tensor as soon as its gradient is final, from the
  // last tensor to the first.
  double loss_with_gradients(std::int64_t first, std::int64_t count, const std::function<void(std::size_t)>& ready);

  std::span<float> values() { return values_; }
  std::span<float> gradients() { return gradients_; }
  static std::vector<Tensor> tensors();
  static const std::vector<std::string>& names();

 private:
  std::vector<float> values_, gradients_;  // [fc1's weight | its bias | fc2's weight | its bias]
};

}  // namespace strobe::lm
