// Launches the Hopper backward kernels of one padded head dimension. Each d<d>.cu instantiates these templates for one
// dimension, so that the files compile in parallel.
#pragma once

#include <type_traits>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/backward/kernel.cuh"
#include "attention/cuda/sm90/backward/launch.h"
#include "attention/cuda/sm90/backward/pairs.cuh"

namespace strobe::cuda::sm90 {

template <class T, int kD, class Args>
constexpr auto kernel_of(const BackwardShape& shape) {
  constexpr int kRows = backward_rows(kD);
  if constexpr (kD > 128) {
    static_assert(kD == kPairDim);
    return pair_kernel<T, Args>;
  } else if constexpr (!std::is_same_v<Args, BackwardArgs>) {
    // backward_config() never selects Share::tiles or tall tiles with options.
    return backward_kernel<T, kD, Share::keys, kRows, Args>;
  } else {
    if (shape.share == Share::tiles) return backward_kernel<T, kD, Share::tiles, kRows, Args>;
    if constexpr (kD == kTallDim) {
      if (shape.rows == kTallRows) return backward_kernel<T, kD, Share::keys, kTallRows, Args>;
    }
    return backward_kernel<T, kD, Share::keys, kRows, Args>;
  }
}

template <int kD, class Args>
bool launch_backward_kernel(const BackwardLaunch& launch, const Args& args, std::int64_t blocks) {
  const Launch how{"hopper backward", blocks, kBackwardThreads, launch.config.shared_bytes, launch.stream};
  const auto kernel = launch.dtype == DType::fp16 ? kernel_of<Fp16, kD, Args>(launch.config.shape)
                                                  : kernel_of<Bf16, kD, Args>(launch.config.shape);
  if (!args.rows.work_counter) return launch_together(kernel, how, args);
  launch_kernel(kernel, how, args);
  return true;
}

}  // namespace strobe::cuda::sm90
