// What the forward kernels are launched with.
#pragma once

#include "attention/cuda/params.h"

namespace strobe::cuda::sm80 {

struct ForwardArgs {
  Params params;
  std::int32_t row_tiles = 1;  // of the longest sequence
  std::int32_t stages = 1, splits = 1, packed_heads = 1;
  std::int64_t rows = 0;         // all rows of all heads, as LSE counts them
  float* partial_o = nullptr;    // [splits][rows][padded head dimension], where splits > 1
  float* partial_lse = nullptr;  // [splits][rows]
};

}  // namespace strobe::cuda::sm80
