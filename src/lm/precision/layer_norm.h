// LayerNorm without weights, with every intermediate rounded to a type: what the norm loses where it is not fp32
// inside.
#pragma once

#include <span>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

inline constexpr float kLayerNormEps = 1e-5f;

// y = (x - mean) / sqrt(variance + eps); returns 1 / sqrt(variance + eps). Sums run from the first element to the last.
float layer_norm(std::span<const float> x, DType arithmetic, std::span<float> y);

std::vector<double> layer_norm_float64(std::span<const float> x);

// Rows of normal numbers as the type holds them, normed with its arithmetic and with fp32 inside and its type outside.
struct LayerNormError {
  DType dtype;
  double deviation;                // of the numbers
  double throughout, fp32_inside;  // largest difference from float64 on the same numbers; the outputs are about 1
};
std::vector<LayerNormError> layer_norm_errors(std::span<const double> deviations, int width);

}  // namespace strobe::lm
