// Tests if packing can read a block of the source without AVX-512 masks. Used by pack_pairs.h and pack_split.h.
#pragma once

#include "attention/cpu/isa.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Returns true if rows [r, r + rows) exist, none is null, and each has contiguous columns [col, col + cols). `rows`
// must be a multiple of 8.
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
