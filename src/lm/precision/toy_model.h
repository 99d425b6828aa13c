// ToyModel is a small model in mixed precision: fc1, ReLU, LayerNorm, fc2 and cross-entropy. `strobe precision` runs
// its forward and backward and prints the type of each tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/host/allocator.h"
#include "strobe/dtype.h"

namespace strobe::lm {

struct ToyTensor {
  ToyTensor(std::string called, DType type, std::int64_t row_count, std::int64_t column_count);

  std::string name;
  DType dtype;
  std::int64_t rows, columns;
  Buffer memory;

  std::int64_t count() const { return rows * columns; }
  float at(std::int64_t index) const;
  void set(std::int64_t index, float value) const;  // rounds to dtype
};

class ToyModel {
 public:
  // `low` is the type of the matmuls. Parameters, LayerNorm, the loss and parameter gradients are fp32.
  explicit ToyModel(DType low);

  double loss();                 // forward only
  double loss_with_gradients();  // forward and backward
  const std::vector<ToyTensor>& tensors() const {
    return tensors_;
  }  // parameters and input, then in the order of a step

  // Indices in tensors().
  enum Place : std::size_t {
    kFc1Weight,
    kNormWeight,
    kNormBias,
    kFc2Weight,  // last of the parameters
    kX,
    kFc1Copy,
    kFc1,
    kNorm,
    kNormCopy,
    kFc2Copy,
    kLogits,
    kLosses,  // last tensor of the forward
    kDLogits,
    kDFc2Weight,
    kDNorm,
    kDNormWeight,
    kDNormBias,
    kDFc1,
    kDFc1Weight,
    kPlaces  // number of tensors
  };

 private:
  const ToyTensor& operator[](Place place) const { return tensors_[place]; }
  void forward();
  void norm_backward();
  static void copy(const ToyTensor& from, const ToyTensor& to);  // rounds to `to`'s type

  DType low_;
  std::vector<ToyTensor> tensors_;
};

}  // namespace strobe::lm
