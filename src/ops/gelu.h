// y = x P(X < x), X a standard normal number: GELU as its definition says it, by erf, not by tanh.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Gelu {
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::fp32;
};

// x, y: [rows, width].
void gelu(const Place& place, const Gelu& shape, const void* x, void* y);

// dx may lie where x does.
void gelu_backward(const Place& place, const Gelu& shape, const void* x, const void* dy, void* dx);

}  // namespace strobe::ops
