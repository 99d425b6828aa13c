// Implements forward and backward of ToyModel in mixed precision.
#include "lm/precision/toy_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/half.h"
#include "core/philox.h"
#include "lm/precision/rounding.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace strobe::lm {

namespace {

constexpr std::int64_t kToyRows = 16, kIn = 20, kHidden = 10, kOut = 5;
constexpr ops::ExecutionContext kPlace{.device = Device::cpu, .threads = 1};

// Returns a number in [-1, 1).
float drawn(std::uint32_t tensor, std::int64_t index) {
  return static_cast<float>(
      static_cast<double>(philox({tensor, static_cast<std::uint32_t>(index), 0, 0}, 1)[0]) * 0x1p-31 - 1);
}

std::int32_t target(std::int64_t row) { return static_cast<std::int32_t>(row % kOut); }

}  // namespace

ToyTensor::ToyTensor(std::string called, DType type, std::int64_t row_count, std::int64_t column_count)
    : name(std::move(called)),
      dtype(type),
      rows(row_count),
      columns(column_count),
      memory(static_cast<std::size_t>(row_count * column_count) * size_of(type)) {
  std::memset(memory.data(), 0, memory.bytes());
}

float ToyTensor::at(std::int64_t index) const { return load_element(memory.data(), dtype, index); }
void ToyTensor::set(std::int64_t index, float value) const { store_element(memory.data(), dtype, index, value); }

ToyModel::ToyModel(DType low) : low_(low) {
  const auto add = [&](const char* name, DType dtype, std::int64_t rows, std::int64_t columns) {
    tensors_.emplace_back(name, dtype, rows, columns);
  };
  constexpr DType kFull = DType::fp32;
  add("fc1's weight", kFull, kHidden, kIn);
  add("LayerNorm's weight", kFull, 1, kHidden);
  add("LayerNorm's bias", kFull, 1, kHidden);
  add("fc2's weight", kFull, kOut, kHidden);
  add("input", low, kToyRows, kIn);
  add("copy of fc1's weight", low, kHidden, kIn);
  add("fc1's output", low, kToyRows, kHidden);
  add("LayerNorm's output", kFull, kToyRows, kHidden);
  add("copy of LayerNorm's output", low, kToyRows, kHidden);
  add("copy of fc2's weight", low, kOut, kHidden);
  add("logits", low, kToyRows, kOut);
  add("loss of each row", kFull, kToyRows, 1);
  add("gradient of the logits", low, kToyRows, kOut);
  add("gradient of fc2's weight", kFull, kOut, kHidden);
  add("gradient of LayerNorm's output", low, kToyRows, kHidden);
  add("gradient of LayerNorm's weight", kFull, 1, kHidden);
  add("gradient of LayerNorm's bias", kFull, 1, kHidden);
  add("gradient of fc1's output", low, kToyRows, kHidden);
  add("gradient of fc1's weight", kFull, kHidden, kIn);
  for (const Place place : {kFc1Weight, kFc2Weight, kX}) {
    for (std::int64_t i = 0; i < (*this)[place].count(); ++i) {
      (*this)[place].set(i, drawn(static_cast<std::uint32_t>(place), i));
    }
  }
  for (std::int64_t i = 0; i < kHidden; ++i) (*this)[kNormWeight].set(i, 1);
}

void ToyModel::copy(const ToyTensor& from, const ToyTensor& to) {
  for (std::int64_t i = 0; i < from.count(); ++i) to.set(i, from.at(i));
}

void ToyModel::forward() {
  const ToyModel& t = *this;
  copy(t[kFc1Weight], t[kFc1Copy]);
  ops::linear(kPlace, {kToyRows, kIn, kHidden, low_}, t[kX].memory.data(), t[kFc1Copy].memory.data(),
              t[kFc1].memory.data());
  for (std::int64_t i = 0; i < t[kFc1].count(); ++i) t[kFc1].set(i, std::max(0.0f, t[kFc1].at(i)));
  std::vector<float> row(kHidden), normed(kHidden);
  for (std::int64_t r = 0; r < kToyRows; ++r) {
    for (std::int64_t i = 0; i < kHidden; ++i) row[static_cast<std::size_t>(i)] = t[kFc1].at(r * kHidden + i);
    layer_norm(row, t[kNorm].dtype, normed);
    for (std::int64_t i = 0; i < kHidden; ++i) {
      const float value = normed[static_cast<std::size_t>(i)] * t[kNormWeight].at(i) + t[kNormBias].at(i);
      t[kNorm].set(r * kHidden + i, value);
    }
  }
  copy(t[kNorm], t[kNormCopy]);
  copy(t[kFc2Weight], t[kFc2Copy]);
  ops::linear(kPlace, {kToyRows, kHidden, kOut, low_}, t[kNormCopy].memory.data(), t[kFc2Copy].memory.data(),
              t[kLogits].memory.data());
}

double ToyModel::loss() {
  const ToyModel& t = *this;
  forward();
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < kToyRows; ++r) targets.push_back(target(r));
  ops::cross_entropy(kPlace, {.rows = kToyRows, .vocabulary = kOut, .dtype = low_}, t[kLogits].memory.data(),
                     targets.data(), t[kLosses].memory.as<float>());
  return ops::mean_of(t[kLosses].memory.as<float>(), kToyRows);
}

double ToyModel::loss_with_gradients() {
  const ToyModel& t = *this;
  forward();
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < kToyRows; ++r) targets.push_back(target(r));
  copy(t[kLogits], t[kDLogits]);
  ops::cross_entropy_with_gradient(kPlace, {.rows = kToyRows, .vocabulary = kOut, .dtype = low_},
                                   t[kDLogits].memory.data(), targets.data(), t[kLosses].memory.as<float>());
  for (const Place place : {kDFc2Weight, kDNormWeight, kDNormBias, kDFc1Weight}) {
    std::memset(t[place].memory.data(), 0, t[place].memory.bytes());
  }
  const ops::Linear fc1{kToyRows, kIn, kHidden, low_}, fc2{kToyRows, kHidden, kOut, low_};
  ops::linear_backward_weight(kPlace, fc2, t[kDLogits].memory.data(), t[kNormCopy].memory.data(),
                              t[kDFc2Weight].memory.as<float>());
  ops::linear_backward_input(kPlace, fc2, t[kDLogits].memory.data(), t[kFc2Copy].memory.data(), t[kDNorm].memory.data(),
                             ops::Into::set);
  norm_backward();
  ops::linear_backward_weight(kPlace, fc1, t[kDFc1].memory.data(), t[kX].memory.data(),
                              t[kDFc1Weight].memory.as<float>());
  return ops::mean_of(t[kLosses].memory.as<float>(), kToyRows);
}

// Computes the gradients of LayerNorm and ReLU: dx = inverse (g - mean(g) - y mean(g y)), where g = dy * weight.
// inverse and y are the results of layer_norm(). dx is 0 where ReLU was inactive.
void ToyModel::norm_backward() {
  const ToyModel& t = *this;
  std::vector<float> row(kHidden), y(kHidden), g(kHidden);
  for (std::int64_t r = 0; r < kToyRows; ++r) {
    for (std::int64_t i = 0; i < kHidden; ++i) row[static_cast<std::size_t>(i)] = t[kFc1].at(r * kHidden + i);
    const float inverse = layer_norm(row, DType::fp32, y);
    float mean = 0, product = 0;
    for (std::int64_t i = 0; i < kHidden; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float dy = t[kDNorm].at(r * kHidden + i);
      t[kDNormWeight].set(i, t[kDNormWeight].at(i) + dy * y[at]);
      t[kDNormBias].set(i, t[kDNormBias].at(i) + dy);
      g[at] = dy * t[kNormWeight].at(i);
      mean += g[at] / kHidden;
      product += g[at] * y[at] / kHidden;
    }
    for (std::int64_t i = 0; i < kHidden; ++i) {
      const auto at = static_cast<std::size_t>(i);
      t[kDFc1].set(r * kHidden + i, row[at] > 0 ? inverse * (g[at] - mean - y[at] * product) : 0);
    }
  }
}

}  // namespace strobe::lm
