// What of a matrix to be packed can be read without masks on AVX-512. For pack_pairs.h and pack_parts.h.
#pragma once

#include "attention/cpu/isa.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Whether rows [r, r + rows), a multiple of 8, and columns [col, col + cols) are all given.
STROBE_INLINE bool all_given(const Pack& pack, int r, int rows, int col, int cols) {
  if (pack.col_stride != 1 || r + rows > pack.count || col + cols > pack.cols) return false;
  for (int i = r; i < r + rows; i += 8) {
    const __m512i eight = _mm512_loadu_si512(pack.rows + i);
    if (_mm512_test_epi64_mask(eight, eight) != 0xff) return false;
  }
  return true;
}

}  // namespace
}  // namespace strobe::cpu
