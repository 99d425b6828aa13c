// Launches the Hopper forward kernels of one pair of head dimensions. Each d<d>.cu instantiates these templates for one
// value of d, so that the files compile in parallel.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/forward/kernel.cuh"
#include "attention/cuda/sm90/forward/launch.h"

namespace strobe::cuda::sm90 {

// nvcc rejects a ForwardShape as template argument in host code, so these types carry one.
template <int kD, int kDv, int kRows>
struct Small {
  static constexpr ForwardShape kShape = small_shape({kD, kDv}, kRows);
};
template <int kD>
struct Dropping {
  static constexpr ForwardShape kShape = dropping_shape({kD, kD});
};
template <int kD>
struct WithBias {
  static constexpr ForwardShape kShape = bias_shape({kD, kD});
};
template <int kD>
struct WithAlibi {
  static constexpr ForwardShape kShape = alibi_shape({kD, kD});
};
template <std::size_t kRule>
struct OfRule {
  static constexpr ForwardShape kShape = kForwardRules[kRule].shape;
};

template <class T, int kD, int kDv, class Shape, class Args>
void launch_forward_kernel(const Launch& how, const Args& args) {
  using Tiles = ForwardTiles<Shape::kShape.consumers, Shape::kShape.keys, Shape::kShape.stages, Shape::kShape.q_stages,
                             Shape::kShape.passes, Shape::kShape.shares, Shape::kShape.splits>;
  launch_kernel(forward_kernel<T, kD, kDv, Tiles, Args>, how, args);
}

template <class T, int kD, int kDv, std::size_t... kRule>
void launch_forward_shape(const Launch& how, const ForwardShape& shape, const ForwardArgs& args,
                          std::index_sequence<kRule...>) {
  if (shape == Small<kD, kDv, 64>::kShape) return launch_forward_kernel<T, kD, kDv, Small<kD, kDv, 64>>(how, args);
  if (shape == Small<kD, kDv, 128>::kShape) return launch_forward_kernel<T, kD, kDv, Small<kD, kDv, 128>>(how, args);
  const auto starts = [&]<std::size_t kIndex>() {
    if constexpr (kForwardRules[kIndex].dims == HeadDims{kD, kDv}) {
      if (shape == OfRule<kIndex>::kShape) {
        launch_forward_kernel<T, kD, kDv, OfRule<kIndex>>(how, args);
        return true;
      }
    }
    return false;
  };
  if (!(starts.template operator()<kRule>() || ...)) {
    throw Error(ErrorCode::unsupported, "cuda: hopper forward: this build has no kernel for the chosen tiles");
  }
}

inline Launch blocks_of(const ForwardLaunch& launch, const ForwardArgs& args) {
  const std::int64_t tiles = std::int64_t{args.scheduler.units} * args.scheduler.tiles;
  return {"hopper forward", std::min<std::int64_t>(tiles, launch.multiprocessors), threads_of(launch.config.shape),
          launch.config.shared_bytes, launch.stream};
}

template <int kD, int kDv>
void launch_forward_tiles(const ForwardLaunch& launch, const ForwardArgs& args) {
  const ForwardShape& shape = launch.config.shape;
  const Launch how = blocks_of(launch, args);
  constexpr auto kRules = std::make_index_sequence<std::size(kForwardRules)>();
  if (launch.dtype == DType::fp16) {
    launch_forward_shape<Fp16, kD, kDv>(how, shape, args, kRules);
  } else {
    launch_forward_shape<Bf16, kD, kDv>(how, shape, args, kRules);
  }
}

template <int kD>
void launch_bias_tiles(const ForwardLaunch& launch, const BiasForwardArgs& args) {
  const Launch how = blocks_of(launch, args);
  if (launch.dtype == DType::fp16) {
    launch_forward_kernel<Fp16, kD, kD, WithBias<kD>>(how, args);
  } else {
    launch_forward_kernel<Bf16, kD, kD, WithBias<kD>>(how, args);
  }
}

template <int kD>
void launch_alibi_tiles(const ForwardLaunch& launch, const AlibiForwardArgs& args) {
  const Launch how = blocks_of(launch, args);
  if (launch.dtype == DType::fp16) {
    launch_forward_kernel<Fp16, kD, kD, WithAlibi<kD>>(how, args);
  } else {
    launch_forward_kernel<Bf16, kD, kD, WithAlibi<kD>>(how, args);
  }
}

template <int kD>
void launch_dropping_tiles(const ForwardLaunch& launch, const DroppingForwardArgs& args) {
  const Launch how = blocks_of(launch, args);
  if (launch.dtype == DType::fp16) {
    launch_forward_kernel<Fp16, kD, kD, Dropping<kD>>(how, args);
  } else {
    launch_forward_kernel<Bf16, kD, kD, Dropping<kD>>(how, args);
  }
}

}  // namespace strobe::cuda::sm90
