// Launch of the Hopper backward. A single kernel prepares the rows, processes the key tiles and rounds dQ. d64.cu,
// d128.cu and d256.cu instantiate it, one per padded head dimension.
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
  bool bias = false;
  bool clears_dbias = false;  // dbias needs zeros before the main kernel
  int multiprocessors = 1;
  void* stream = nullptr;
};

std::size_t backward_workspace_bytes(const BackwardLaunch& launch, const Problem& problem);

void launch_backward(const BackwardLaunch& launch, const BackwardParams& params, void* workspace);

std::string text_of(const BackwardLaunch& launch);  // for `strobe explain`

// Launches the kernel, cooperatively if args.rows.work_counter is null. Returns false without any effect if the blocks
// of a cooperative launch cannot all be resident at once.
template <int kD, class Args>
bool launch_backward_kernel(const BackwardLaunch& launch, const Args& args, std::int64_t blocks);

}  // namespace strobe::cuda::sm90
