// A small model with biases, which the llama language model lacks: fc1, ReLU, fc2 and mean squared error. verify.cpp
// trains it on ranks and in one process.
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

  // Returns the mean loss of rows [first, first + count) of an endless sample set and computes its gradients. Calls
  // `ready` with each tensor as soon as its gradient is final, from the last tensor to the first.
  double loss_with_gradients(std::int64_t first, std::int64_t count, const std::function<void(std::size_t)>& ready);

  std::span<float> values() { return values_; }
  std::span<float> gradients() { return gradients_; }
  static std::vector<Tensor> tensors();
  static const std::vector<std::string>& names();

 private:
  std::vector<float> values_, gradients_;  // [fc1's weight | its bias | fc2's weight | its bias]
};

}  // namespace strobe::lm
