// Computes the rounding errors that `strobe precision` prints.
#include "lm/precision/rounding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/half.h"
#include "core/philox.h"

namespace strobe::lm {

namespace {

// A number stored in a type, like an element of a tensor.
class Stored {
 public:
  Stored(DType dtype, float value) : dtype_(dtype) { set(value); }
  DType dtype() const { return dtype_; }
  float get() const { return load_element(bytes_, dtype_, 0); }
  void set(float value) { store_element(bytes_, dtype_, 0, value); }

 private:
  DType dtype_;
  alignas(float) char bytes_[sizeof(float)] = {};
};

}  // namespace

std::vector<Accumulation> accumulate_hundredths(int additions) {
  std::vector<Accumulation> all{{DType::fp32, DType::fp32},
                                {DType::fp16, DType::fp16},
                                {DType::fp16, DType::fp32},
                                {DType::fp16, DType::fp32, true}};
  for (Accumulation& one : all) {
    const Stored term(one.term, 0.01f);
    const Stored added = one.widened ? Stored(DType::fp32, term.get()) : term;
    Stored sum(one.sum, 0);
    for (int i = 0; i < additions; ++i) sum.set(sum.get() + added.get());
    one.result = static_cast<double>(sum.get());
  }
  return all;
}

// --- LayerNorm -------------------------------------------------------------------------------------------------------

namespace {

constexpr int kRows = 16;
constexpr std::uint64_t kSeed = 1;

float normal(std::uint32_t row, std::uint32_t column) {
  const auto words = philox({row, column, 0, 0}, kSeed);
  const auto uniform = [](std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; };
  return static_cast<float>(std::sqrt(-2 * std::log(uniform(words[0]))) *
                            std::cos(2 * std::numbers::pi * uniform(words[1])));
}

// Returns the largest difference; a NaN counts as infinite.
double largest_difference(std::span<const float> found, std::span<const double> right) {
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(static_cast<double>(found[i]) - right[i]);
    if (!(difference <= most)) most = std::isnan(difference) ? INFINITY : difference;
  }
  return most;
}

LayerNormError error_of(DType dtype, double deviation, int width) {
  LayerNormError error{.dtype = dtype, .deviation = deviation, .throughout = 0, .fp32_inside = 0};
  std::vector<float> x(static_cast<std::size_t>(width)), y(x.size());
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = round_to(dtype, static_cast<float>(deviation) * normal(row, static_cast<std::uint32_t>(i)));
    }
    const std::vector<double> right = layer_norm_float64(x);
    layer_norm(x, dtype, y);
    error.throughout = std::max(error.throughout, largest_difference(y, right));
    layer_norm(x, DType::fp32, y);
    for (float& value : y) value = round_to(dtype, value);
    error.fp32_inside = std::max(error.fp32_inside, largest_difference(y, right));
  }
  return error;
}

}  // namespace

float layer_norm(std::span<const float> x, DType arithmetic, std::span<float> y) {
  const auto rounded = [&](float value) { return round_to(arithmetic, value); };
  const auto count = static_cast<float>(x.size());
  float mean = 0, variance = 0;
  for (const float value : x) mean = rounded(mean + value);
  mean = rounded(mean / count);
  for (const float value : x) {
    const float centred = rounded(value - mean);
    variance = rounded(variance + rounded(centred * centred));
  }
  variance = rounded(variance / count);
  const float inverse = rounded(1 / rounded(std::sqrt(rounded(variance + rounded(kLayerNormEps)))));
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = rounded(rounded(x[i] - mean) * inverse);
  return inverse;
}

std::vector<double> layer_norm_float64(std::span<const float> x) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const float value : x) mean += static_cast<double>(value) / count;
  for (const float value : x)
    variance += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / count;
  std::vector<double> y;
  for (const float value : x) {
    y.push_back((static_cast<double>(value) - mean) / std::sqrt(variance + static_cast<double>(kLayerNormEps)));
  }
  return y;
}

std::vector<LayerNormError> layer_norm_errors(std::span<const double> deviations, int width) {
  std::vector<LayerNormError> errors;
  for (const double deviation : deviations) {
    for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
      errors.push_back(error_of(dtype, deviation, width));
    }
  }
  return errors;
}

}  // namespace strobe::lm
