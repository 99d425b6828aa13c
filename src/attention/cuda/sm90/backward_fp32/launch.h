// Starts the Hopper backward for fp32: facts of rows by flash2's kernel, tiles split into parts, tiles of keys, dQ;
// then flash2's kernels with three parts, which do the work where elements differ too much in size, and else nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/backward/launch.h"
#include "attention/cuda/sm90/backward_fp32/args.h"
#include "attention/cuda/sm90/backward_fp32/config.h"

namespace strobe::cuda::sm90 {

std::size_t fp32_backward_workspace_bytes(const BackwardLaunch& launch, const BackwardParams& params);

void launch_fp32_backward(const BackwardLaunch& launch, const BackwardParams& params, void* workspace);

// Splitting, tiles of keys and dQ of one padded head dimension, in d<d>.cu.
template <int kD>
void launch_fp32_backward_kernels(const BackwardLaunch& launch, const Fp32SplitArgs& args);

}  // namespace strobe::cuda::sm90
