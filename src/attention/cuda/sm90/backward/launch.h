// Starts the Hopper backward: rows first, then tiles of keys and, by the same blocks, dQ rounded (d64.cu, d128.cu,
// d256.cu by padded head dimension).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/config.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm90 {

struct BackwardLaunch {
  BackwardConfig config;
  DType dtype = DType::fp16;
  bool deterministic = true;
  int multiprocessors = 1;
  void* stream = nullptr;
};

std::size_t backward_workspace_bytes(const BackwardLaunch& launch, const Problem& problem);

void launch_backward(const BackwardLaunch& launch, const Params& params, void* workspace);

// All kernels of one padded head dimension. `facts` and `args` agree in what they share.
template <int kD>
void launch_backward_kernels(const BackwardLaunch& launch, const RowFactsArgs& facts, const BackwardArgs& args);

}  // namespace strobe::cuda::sm90
