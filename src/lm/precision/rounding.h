// Measures rounding errors of fp32, fp16 and bf16: in long sums, and in LayerNorm without weights. `strobe precision`
// prints both.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

struct Accumulation {
  DType term, sum;       // types of the term 0.01 and of the sum
  bool widened = false;  // the term was converted to fp32 before the addition
  double result = 0;
};

// Adds 0.01 `additions` times, in four ways: fp32 + fp32, fp16 + fp16, an fp16 term to an fp32 sum, and an fp16 term
// that is first converted to fp32 to an fp32 sum. Each partial sum is rounded to the sum's type.
std::vector<Accumulation> accumulate_hundredths(int additions = 1000);

// --- LayerNorm -------------------------------------------------------------------------------------------------------

inline constexpr float kLayerNormEps = 1e-5f;

// Computes y = (x - mean) / sqrt(variance + eps) and returns 1 / sqrt(variance + eps). Rounds every intermediate to
// `arithmetic`. Sums in order from the first element to the last.
float layer_norm(std::span<const float> x, DType arithmetic, std::span<float> y);

std::vector<double> layer_norm_float64(std::span<const float> x);

// Errors of LayerNorm on rows of normally distributed numbers of type `dtype`. throughout: all arithmetic is in dtype.
// fp32_inside: only input and output are in dtype, and the arithmetic is in fp32.
struct LayerNormError {
  DType dtype;
  double deviation;                // standard deviation of the numbers
  double throughout, fp32_inside;  // largest difference from float64 on the same numbers; outputs are of order 1
};
std::vector<LayerNormError> layer_norm_errors(std::span<const double> deviations, int width);

}  // namespace strobe::lm
