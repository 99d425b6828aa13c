// The launch of one head dimension; each d<dim>.cu instantiates it, so that they compile side by side.
#pragma once

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/forward/kernel.cuh"
#include "attention/cuda/sm80/forward/launch.h"

namespace strobe::cuda::sm80 {

template <int kD>
void launch_forward_tiles(const ForwardLaunch& launch) {
  const ForwardConfig& config = launch.config;
  const ForwardArgs& args = launch.args;
  const auto start = [&]<class T, ForwardKind kKind>() {
    const std::int64_t units = std::int64_t{args.params.batch} * (args.params.heads_q / args.packed_heads);
    launch_kernel(forward_kernel<T, kD, kKind>,
                  {"flash2 forward", units * args.row_tiles * args.splits.count,
                   kForwardShape<T, kD, kKind>.warps * kWarpLanes, config.shared_bytes, launch.stream},
                  args);
  };
  // Head dimensions that each kind has a kernel for: config.h.
  constexpr bool kHasOptions = kD == 64 || kD == 128;
  constexpr bool kAllKinds = kHasOptions || kD == 256;
  const auto start_16_bits = [&]<class T>() {
    if (config.kind == ForwardKind::plain) return start.template operator()<T, ForwardKind::plain>();
    if constexpr (kHasOptions) {
      if (config.kind == ForwardKind::options) return start.template operator()<T, ForwardKind::options>();
    }
    if constexpr (kAllKinds) {
      if (config.kind == ForwardKind::general) return start.template operator()<T, ForwardKind::general>();
      start.template operator()<T, ForwardKind::small>();
    }
  };
  switch (launch.dtype) {
    case DType::fp16: return start_16_bits.template operator()<Fp16>();
    case DType::bf16: return start_16_bits.template operator()<Bf16>();
    case DType::fp32: break;
  }
  if constexpr (kD <= 64) {
    const bool plain = config.kind == ForwardKind::plain;
    if (plain && config.parts == Parts::rounded) return start.template operator()<Tf32, ForwardKind::plain>();
    if (plain) return start.template operator()<Fp32Scaled, ForwardKind::plain>();
  }
  if constexpr (kAllKinds) start.template operator()<Fp32, ForwardKind::general>();
}

}  // namespace strobe::cuda::sm80
