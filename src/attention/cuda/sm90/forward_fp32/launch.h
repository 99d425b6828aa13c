// Starts the Hopper forward for fp32.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/forward_fp32/args.h"
#include "attention/cuda/sm90/forward_fp32/config.h"

namespace strobe::cuda::sm90 {

struct Fp32ForwardLaunch {
  Fp32Config config;
  bool uneven = false;    // as in ForwardFacts
  std::int64_t rows = 0;  // all rows of all heads, as LSE counts them
  int multiprocessors = 1;
  void* stream = nullptr;
};

std::size_t fp32_forward_workspace_bytes(const Fp32ForwardLaunch& launch);

void launch_fp32_forward(const Fp32ForwardLaunch& launch, const Params& params, void* workspace);

// One padded head dimension each, in d<d>.cu.
template <int kD>
void launch_fp32_forward_tiles(const Fp32ForwardLaunch& launch, const Fp32ForwardArgs& args);

}  // namespace strobe::cuda::sm90
