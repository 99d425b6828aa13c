// Starts the Hopper backward, one kernel: rows first, then tiles of keys, then dQ rounded (d64.cu, d128.cu, d256.cu by
// padded head dimension).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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

void launch_backward(const BackwardLaunch& launch, const BackwardParams& params, void* workspace);

std::string text_of(const BackwardLaunch& launch);  // for explain

// Starts the kernel, all blocks together where rows have no tickets. False, and nothing has happened: they find no
// room.
template <int kD>
bool launch_backward_kernel(const BackwardLaunch& launch, const BackwardArgs& args, std::int64_t blocks);

}  // namespace strobe::cuda::sm90
