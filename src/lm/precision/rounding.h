// Rounding errors of a type: in a thousand additions, and in LayerNorm without weights. `strobe precision` prints both.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

struct Accumulation {
  DType term, sum;       // types of 0.01 and of the sum
  bool widened = false;  // the term was converted to fp32 before the addition
  double result = 0;
};

// Sums fp32 in fp32, fp16 in fp16, fp16 in fp32, and fp16 converted to fp32 in fp32. Each partial sum is rounded to its
// type.
std::vector<Accumulation> accumulate_hundredths(int additions = 1000);

// --- LayerNorm -------------------------------------------------------------------------------------------------------

inline constexpr float kLayerNormEps = 1e-5f;

// Computes y = (x - mean) / sqrt(variance + eps) and returns 1 / sqrt(variance + eps). Rounds every intermediate to
// `arithmetic`. Sums in order from the first element to the last.
float layer_norm(std::span<const float> x, DType arithmetic, std::span<float> y);

std::vector<double> layer_norm_float64(std::span<const float> x);

// LayerNorm of rows of normal numbers that are stored in a type: once with the type's arithmetic, once with fp32
// arithmetic between input and output in the type.
struct LayerNormError {
  DType dtype;
  double deviation;                // standard deviation of the numbers
  double throughout, fp32_inside;  // largest difference from float64 on the same numbers; outputs are about 1
};
std::vector<LayerNormError> layer_norm_errors(std::span<const double> deviations, int width);

}  // namespace strobe::lm
