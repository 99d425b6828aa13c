// Starts the Hopper forward.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/forward/args.h"
#include "attention/cuda/sm90/forward/config.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm90 {

struct ForwardLaunch {
  ForwardConfig config;
  DType dtype = DType::fp16;
  bool uneven = false;  // as in ForwardFacts
  int multiprocessors = 1;
  void* stream = nullptr;
};

// Tiles that take different times are handed out by a counter.
inline constexpr std::size_t kForwardWorkspaceBytes = 256;

// What the kernel is started with; the counter is reset on the stream.
ForwardArgs begin_forward(const ForwardLaunch& launch, const Params& params, void* workspace);

void launch_forward(const ForwardLaunch& launch, const Params& params, void* workspace);

// One pair of head dimensions each, in d<d>.cu.
template <int kD, int kDv>
void launch_forward_tiles(const ForwardLaunch& launch, const ForwardArgs& args);

}  // namespace strobe::cuda::sm90
