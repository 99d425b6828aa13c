// Launch of the Hopper forward: its parameters and the functions that launch.cpp and d<d>.cu define.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/forward/args.h"
#include "attention/cuda/sm90/forward/config.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm90 {

struct ForwardLaunch {
  ForwardConfig config;
  DType dtype = DType::fp16;
  bool uneven = false;    // as in ForwardFacts
  std::int64_t rows = 0;  // number of LSE entries
  int multiprocessors = 1;
  void* stream = nullptr;
};

std::size_t forward_workspace_bytes(const ForwardLaunch& launch);

// Returns the kernel's arguments, tensor maps included. If the call uses the work counter, clears it on the stream.
ForwardArgs begin_forward(const ForwardLaunch& launch, const Params& params, void* workspace);

void launch_forward(const ForwardLaunch& launch, const Params& params, void* workspace);

// Launch the kernel of one pair of head dimensions; instantiated in d<d>.cu, alibi.cu and bias.cu.
template <int kD, int kDv>
void launch_forward_tiles(const ForwardLaunch& launch, const ForwardArgs& args);
template <int kD>
void launch_dropping_tiles(const ForwardLaunch& launch, const DroppingForwardArgs& args);
template <int kD>
void launch_bias_tiles(const ForwardLaunch& launch, const BiasForwardArgs& args);
template <int kD>
void launch_alibi_tiles(const ForwardLaunch& launch, const AlibiForwardArgs& args);

}  // namespace strobe::cuda::sm90
