// Arguments of a matmul of one panel of columns, which core/simd_panel.h computes. Plain data: it crosses from
// baseline code to code of one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

// c [rows x cols] = a b, plus the addend if there is one; at most the columns of one panel.
struct ProductPanel {
  const float *a, *b;
  std::ptrdiff_t a_stride, b_stride;  // elements between stored rows
  bool a_transposed, b_transposed;    // stored as [steps x rows] and [cols x steps]
  const float* addend;                // [rows x cols] at c's stride; may be c; null: none
  float* c;
  std::ptrdiff_t c_stride;
  std::int64_t rows, cols, steps;
};

}  // namespace strobe
