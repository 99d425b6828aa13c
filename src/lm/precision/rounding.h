// What rounding to a type loses: a thousand additions, and LayerNorm without weights. `strobe precision` prints both.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

struct Accumulation {
  DType term, sum;       // types of 0.01 and of what it is added to
  bool widened = false;  // the term was made fp32 before it was added
  double result = 0;
};

// fp32 into fp32, fp16 into fp16, fp16 into fp32, fp16 widened into fp32; each sum is rounded to its type every time.
std::vector<Accumulation> accumulate_hundredths(int additions = 1000);

// --- LayerNorm -------------------------------------------------------------------------------------------------------

inline constexpr float kLayerNormEps = 1e-5f;

// Every intermediate is rounded to the arithmetic's type.
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
