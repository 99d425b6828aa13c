// The launches of one padded head dimension; each d<d>.cu instantiates them, so that they compile side by side.
#pragma once

#include <algorithm>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/backward_fp32/kernel.cuh"
#include "attention/cuda/sm90/backward_fp32/launch.h"

namespace strobe::cuda::sm90 {

template <int kD>
void launch_fp32_backward_kernels(const BackwardLaunch& launch, const Fp32SplitArgs& args) {
  const SequenceParams& p = args.params;
  const std::int64_t row_tiles = std::int64_t{p.batch} * p.heads_q * args.row_tiles;
  const std::int64_t key_tiles = std::int64_t{p.batch} * p.heads_kv * args.key_tiles;
  launch_kernel(fp32_split_kernel<kD>,
                {"hopper backward, fp32, parts", row_tiles + key_tiles, kSplitThreads,
                 2 * kSplitThreads / kWarpLanes * sizeof(std::uint32_t), launch.stream},
                args);
  launch_kernel<Fp32BackwardArgs>(fp32_backward_kernel<kD>,
                                  {"hopper backward, fp32", std::min<std::int64_t>(key_tiles, launch.multiprocessors),
                                   kBackwardThreads, launch.config.shared_bytes, launch.stream},
                                  args);
  Fp32RoundArgs round;
  static_cast<RoundDqArgs&>(round) = args;
  round.spread = args.parts.spread;
  launch_kernel(fp32_round_dq_kernel<kD>,
                {"hopper backward, fp32, dQ", row_tiles, Fp32DqPiece<kD>::kThreads, 0, launch.stream}, round);
}

}  // namespace strobe::cuda::sm90
