// Arguments and launch of the sm80 forward, which is flash2's forward on every GPU.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm80/forward/config.h"
#include "attention/cuda/splits.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm80 {

struct ForwardArgs {
  Params params;
  std::int32_t row_tiles = 1;  // for the longest sequence
  std::int32_t stages = 1, packed_heads = 1;
  Splits splits;
};

struct ForwardLaunch {
  ForwardConfig config;
  DType dtype = DType::bf16;
  void* stream = nullptr;
  ForwardArgs args;
};

// Launches the kernels of one padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct ForwardKernels {
  static void launch(const ForwardLaunch& launch);
};

}  // namespace strobe::cuda::sm80
