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
                  {"flash2 forward", units * args.row_tiles * args.splits, kForwardShape<kD, kKind>.warps * kWarpLanes,
                   config.shared_bytes, launch.stream},
                  args);
  };
  const auto start_kind = [&]<ForwardKind kKind>() {
    if (launch.dtype == DType::fp16) {
      start.template operator()<Fp16, kKind>();
    } else {
      start.template operator()<Bf16, kKind>();
    }
  };
  if (config.kind == ForwardKind::plain) return start_kind.template operator()<ForwardKind::plain>();
  if constexpr (kD == 64 || kD == 128 || kD == 256) {
    if (config.kind == ForwardKind::general) return start_kind.template operator()<ForwardKind::general>();
    return start_kind.template operator()<ForwardKind::few_rows>();
  }
}

}  // namespace strobe::cuda::sm80
