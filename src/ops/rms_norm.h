// y = x / sqrt(mean(x^2) + eps) * weight, row by row, in fp32 inside.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct RmsNorm {
  std::int64_t rows = 0, width = 0;
  float eps = 1e-5f;
  DType dtype = DType::fp32;  // of x, y and their gradients; weight and inverse are fp32
};

// x, y: [rows, width]; weight: [width]; inverse, for the backward: [rows], 1 / sqrt(mean(x^2) + eps).
void rms_norm(const Place& place, const RmsNorm& norm, const void* x, const float* weight, void* y, float* inverse);

// dx as `into` says; dweight [width] is added to.
void rms_norm_backward(const Place& place, const RmsNorm& norm, const void* x, const float* weight,
                       const float* inverse, const void* dy, void* dx, Into into, float* dweight);

}  // namespace strobe::ops
