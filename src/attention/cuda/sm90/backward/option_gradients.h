// Kernels that run before or after the main kernel of the Hopper backward, for the gradients of sinks and bias.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/backward/args.h"

namespace strobe::cuda::sm90 {

struct DsinksArgs {
  RowTilesArgs tiles;
  const float *lse = nullptr, *sinks = nullptr;
  float* dsinks = nullptr;
  float scale = 1;         // converts delta in row_facts to the sum of dO * O
  std::int32_t rows = 0;   // rows per row tile
  std::int32_t facts = 0;  // floats per row in row_facts
};

// Computes dsinks from LSE and from delta, after the main kernel.
void launch_dsinks(const DsinksArgs& args, void* stream);

struct DbiasShape {
  std::int32_t batch = 0, heads = 0, rows = 0, keys = 0;
};

// Clears dbias, before the main kernel adds to it or stores parts of it.
void launch_zero_dbias(const Tensor& dbias, const DbiasShape& shape, void* stream);

}  // namespace strobe::cuda::sm90
