// What the forward kernels are launched with.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm80 {

struct ForwardArgs {
  Params params;
  std::int32_t row_tiles = 1;  // of the longest sequence
  std::int32_t stages = 1, packed_heads = 1;
  Splits splits;
};

}  // namespace strobe::cuda::sm80
