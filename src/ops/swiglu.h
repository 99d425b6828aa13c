// y = silu(a) b, element by element, silu(a) = a / (1 + exp(-a)).
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

void swiglu(const Place& place, DType dtype, std::int64_t count, const void* a, const void* b, void* y);

// da and db may lie where a and b do.
void swiglu_backward(const Place& place, DType dtype, std::int64_t count, const void* a, const void* b, const void* dy,
                     void* da, void* db);

}  // namespace strobe::ops
