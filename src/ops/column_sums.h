// Sums over the rows of a matrix: the gradient of what was added to every row, such as a bias.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct ColumnSums {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::fp32;  // of x
};

// sums [columns] = the sum of x [rows, columns] over its rows, as `into` says; in one order.
void column_sums(const Place& place, const ColumnSums& shape, const void* x, float* sums, Into into);

}  // namespace strobe::ops
