// A small valid problem whose tensors do not overlap, for tests of the library's front end.
#pragma once

#include <cstdint>
#include <vector>

#include "strobe/attention.h"

namespace strobe::test {

// Sizes: B 2, Hq 4, Hkv 2, Sq 3, Sk 5, D 8, Dv 6, fp32.
struct SmallProblem {
  static constexpr std::int64_t kB = 2, kHq = 4, kHkv = 2, kSq = 3, kSk = 5, kD = 8, kDv = 6;

  std::vector<float> memory = std::vector<float>(4096, 0.25f);
  std::size_t used = 0;

  Attention attention;
  ForwardOutputs outputs;
  BackwardInputs inputs;
  Gradients gradients;
  Execution execution;

  SmallProblem() {
    attention.q = tensor({kB, kHq, kSq, kD});
    attention.k = tensor({kB, kHkv, kSk, kD});
    attention.v = tensor({kB, kHkv, kSk, kDv});
    outputs.o = tensor({kB, kHq, kSq, kDv});
    outputs.lse = array(kB * kHq * kSq);
    inputs.o = outputs.o;
    inputs.lse = outputs.lse;
    inputs.d_o = tensor({kB, kHq, kSq, kDv});
    gradients.dq = tensor(attention.q.shape);
    gradients.dk = tensor(attention.k.shape);
    gradients.dv = tensor(attention.v.shape);
  }
  SmallProblem(const SmallProblem&) = delete;
  SmallProblem& operator=(const SmallProblem&) = delete;

  float* array(std::int64_t count) {
    float* const first = memory.data() + used;
    used += static_cast<std::size_t>(count);
    if (used > memory.size()) throw Error(ErrorCode::out_of_memory, "test: SmallProblem::memory is too small");
    return first;
  }
  View tensor(const std::array<std::int64_t, 4>& shape) {
    return view_bhsd<void>(array(shape[0] * shape[1] * shape[2] * shape[3]), DType::fp32, shape);
  }
  void add_bias(const std::array<std::int64_t, 4>& shape) {
    attention.bias = tensor(shape);
    gradients.dbias = tensor(shape);
  }
  void add_sinks() {
    attention.sinks = array(kHq);
    gradients.dsinks = array(kHq);
  }

  // Gives K and V the sequence length of Q, so that masks need no alignment.
  void make_square() {
    attention.k = tensor({kB, kHkv, kSq, kD});
    attention.v = tensor({kB, kHkv, kSq, kDv});
    gradients.dk = tensor(attention.k.shape);
    gradients.dv = tensor(attention.v.shape);
  }

  void forward() const { strobe::forward(attention, outputs, execution); }
  void backward() const { strobe::backward(attention, inputs, gradients, execution); }
};

}  // namespace strobe::test
