// Arguments of the matmul of one panel of columns in core/simd_panel.h. Plain data, because portable code passes it to
// code that is compiled for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

// c [rows x cols] = a [rows x steps] b [steps x cols], plus the addend if there is one. `steps` is the inner dimension
// (K of a GEMM). `cols` is at most the width of one panel.
struct MatmulPanel {
  const float *a, *b;
  std::ptrdiff_t a_stride, b_stride;  // elements between stored rows
  bool a_transposed, b_transposed;    // true: a is stored as [steps x rows], b as [cols x steps]
  const float* addend;                // [rows x cols] at c's stride; may be c; null: none
  float* c;
  std::ptrdiff_t c_stride;
  std::int64_t rows, cols, steps;
};

}  // namespace strobe
