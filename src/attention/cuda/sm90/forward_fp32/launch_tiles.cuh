// The launch of one head dimension; each d<d>.cu instantiates it, so that they compile side by side.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/forward_fp32/kernel.cuh"
#include "attention/cuda/sm90/forward_fp32/launch.h"

namespace strobe::cuda::sm90 {

template <int kD>
void launch_fp32_forward_tiles(const Fp32ForwardLaunch& launch, const Fp32ForwardArgs& args) {
  const Fp32Shape& shape = launch.config.shape;
  const std::int64_t tiles = std::int64_t{args.order.units} * args.order.tiles;
  const Launch how{"hopper forward, fp32", std::min<std::int64_t>(tiles, launch.multiprocessors), threads_of(shape),
                   launch.config.shared_bytes, launch.stream};
  const auto starts = [&]<std::size_t kIndex>() {
    constexpr Fp32Rule kRule = kFp32Rules[kIndex];
    if constexpr (kRule.d == kD) {
      constexpr Fp32Shape kShape = kRule.shape;
      if (kShape == shape) {
        using Tiles =
            Fp32Tiles<kShape.splitters, kShape.consumers, kShape.keys, kShape.stages, kShape.q_stages, kShape.pieces>;
        launch_kernel(fp32_forward_kernel<kD, Tiles>, how, args);
        return true;
      }
    }
    return false;
  };
  const bool started = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return (starts.template operator()<kIndex>() || ...);
  }
  (std::make_index_sequence<std::size(kFp32Rules)>());
  if (!started) {
    throw Error(ErrorCode::unsupported,
                "cuda: hopper forward, fp32: no kernel of this build has the tiles that were chosen");
  }
}

}  // namespace strobe::cuda::sm90
