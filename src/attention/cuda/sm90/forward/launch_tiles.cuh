// The launch of one pair of head dimensions; each d<d>.cu instantiates it, so that they compile side by side.
#pragma once

#include <algorithm>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/forward/kernel.cuh"
#include "attention/cuda/sm90/forward/launch.h"

namespace strobe::cuda::sm90 {

template <int kD, int kDv>
void launch_forward_tiles(const ForwardLaunch& launch, const ForwardArgs& args) {
  const ForwardConfig& config = launch.config;
  const std::int64_t tiles = std::int64_t{args.order.units} * args.order.tiles;
  const Launch how{"hopper forward", std::min<std::int64_t>(tiles, launch.multiprocessors), threads_of(config.shape),
                   config.shared_bytes, launch.stream};
  const auto start = [&]<class T, bool kLarge>() { launch_kernel(forward_kernel<T, kD, kDv, kLarge>, how, args); };
  const auto start_size = [&]<class T>() {
    if constexpr (kD == 64 || kD == 128) {  // the others have one shape
      if (config.large) return start.template operator()<T, true>();
    }
    start.template operator()<T, false>();
  };
  if (launch.dtype == DType::fp16) {
    start_size.template operator()<Fp16>();
  } else {
    start_size.template operator()<Bf16>();
  }
}

}  // namespace strobe::cuda::sm90
