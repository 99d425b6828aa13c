// Implements forward and backward of ToyMlp.
#include "lm/data_parallel/toy_mlp.h"

#include <algorithm>

#include "core/philox.h"

namespace strobe::lm {

namespace {

constexpr std::int64_t kMlpIn = 12, kMlpHidden = 32, kMlpOut = 4;
constexpr std::int64_t kCounts[] = {kMlpHidden * kMlpIn, kMlpHidden, kMlpOut* kMlpHidden, kMlpOut};
constexpr std::uint32_t kInputs = 1, kTargets = 2, kWeights = 3;

// Returns a number in [-1, 1).
float drawn_for_mlp(std::uint32_t what, std::int64_t row, std::int64_t column) {
  const auto words = philox({what, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(column), 0x6d6c70}, 1);
  return static_cast<float>(static_cast<double>(words[0]) * 0x1p-31 - 1);
}

}  // namespace

std::vector<Tensor> ToyMlp::tensors() {
  std::vector<Tensor> all;
  std::int64_t first = 0;
  for (const std::int64_t count : kCounts) {
    all.push_back({.first = first, .count = count});
    first += count;
  }
  return all;
}

const std::vector<std::string>& ToyMlp::names() {
  static const std::vector<std::string> all{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
  return all;
}

ToyMlp::ToyMlp() {
  const Tensor last = tensors().back();
  values_.resize(static_cast<std::size_t>(last.first + last.count));
  gradients_.resize(values_.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i] = 0.3f * drawn_for_mlp(kWeights, static_cast<std::int64_t>(i), 0);
  }
}

double ToyMlp::loss_with_gradients(std::int64_t first, std::int64_t count,
                                   const std::function<void(std::size_t)>& ready) {
  const float *const w1 = values_.data(), *const b1 = w1 + kCounts[0], *const w2 = b1 + kCounts[1],
                     *const b2 = w2 + kCounts[2];
  float *const dw1 = gradients_.data(), *const db1 = dw1 + kCounts[0], *const dw2 = db1 + kCounts[1],
               *const db2 = dw2 + kCounts[2];
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  std::vector<float> x(static_cast<std::size_t>(count * kMlpIn)), hidden(static_cast<std::size_t>(count * kMlpHidden)),
      dy(static_cast<std::size_t>(count * kMlpOut));
  const auto at = [](std::vector<float>& rows, std::int64_t row, std::int64_t width) {
    return rows.data() + row * width;
  };
  double loss = 0;
  const float scale = 1.0f / static_cast<float>(count * kMlpOut);
  for (std::int64_t r = 0; r < count; ++r) {
    float *const in = at(x, r, kMlpIn), *const h = at(hidden, r, kMlpHidden), *const d = at(dy, r, kMlpOut);
    for (std::int64_t i = 0; i < kMlpIn; ++i) in[i] = drawn_for_mlp(kInputs, first + r, i);
    for (std::int64_t j = 0; j < kMlpHidden; ++j) {
      float sum = b1[j];
      for (std::int64_t i = 0; i < kMlpIn; ++i) sum += w1[j * kMlpIn + i] * in[i];
      h[j] = std::max(0.0f, sum);
    }
    for (std::int64_t k = 0; k < kMlpOut; ++k) {
      float sum = b2[k] - drawn_for_mlp(kTargets, first + r, k);
      for (std::int64_t j = 0; j < kMlpHidden; ++j) sum += w2[k * kMlpHidden + j] * h[j];
      loss += static_cast<double>(sum) * sum;
      d[k] = 2 * scale * sum;
      db2[k] += d[k];
    }
  }
  ready(3);
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t k = 0; k < kMlpOut; ++k) {
      for (std::int64_t j = 0; j < kMlpHidden; ++j) {
        dw2[k * kMlpHidden + j] += at(dy, r, kMlpOut)[k] * at(hidden, r, kMlpHidden)[j];
      }
    }
  }
  ready(2);
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t j = 0; j < kMlpHidden; ++j) {
      float& h = at(hidden, r, kMlpHidden)[j];  // replaced by its gradient
      float sum = 0;
      for (std::int64_t k = 0; k < kMlpOut; ++k) sum += at(dy, r, kMlpOut)[k] * w2[k * kMlpHidden + j];
      h = h > 0 ? sum : 0;
      db1[j] += h;
    }
  }
  ready(1);
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t j = 0; j < kMlpHidden; ++j) {
      for (std::int64_t i = 0; i < kMlpIn; ++i) {
        dw1[j * kMlpIn + i] += at(hidden, r, kMlpHidden)[j] * at(x, r, kMlpIn)[i];
      }
    }
  }
  ready(0);
  return loss * static_cast<double>(scale);
}

}  // namespace strobe::lm
