// Starts the Hopper backward, one kernel: rows first, then tiles of keys, then dQ rounded (d64.cu, d128.cu, d256.cu by
// padded head dimension).
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

// The counters of pieces of rows, zero when the next kernel begins.
std::uint32_t* begin_row_pieces(const BackwardLaunch& launch, const BackwardArgs& args);

// `args` as for blocks that are started together.
template <int kD>
void launch_backward_kernel(const BackwardLaunch& launch, BackwardArgs& args);

}  // namespace strobe::cuda::sm90
