// y = silu(a) b, element by element, silu(a) = a / (1 + exp(-a)); a and b lie side by side, as one product writes them.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Swiglu {
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::fp32;
};

// ab: [rows, 2, width]; y: [rows, width].
void swiglu(const Place& place, const Swiglu& shape, const void* ab, void* y);

// dab may lie where ab does.
void swiglu_backward(const Place& place, const Swiglu& shape, const void* ab, const void* dy, void* dab);

}  // namespace strobe::ops
