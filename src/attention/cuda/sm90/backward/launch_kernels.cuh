// The launch of one padded head dimension; each d<d>.cu instantiates it, so that they compile side by side.
#pragma once

#include <algorithm>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/backward/kernel.cuh"
#include "attention/cuda/sm90/backward/launch.h"

namespace strobe::cuda::sm90 {

template <class T, int kD>
constexpr auto kernel_of(Share share) {
  if constexpr (kD > 128) {
    return backward_kernel<T, kD, Share::columns>;
  } else {
    return share == Share::tiles ? backward_kernel<T, kD, Share::tiles> : backward_kernel<T, kD, Share::keys>;
  }
}

template <int kD>
void launch_backward_kernel(const BackwardLaunch& launch, BackwardArgs& args) {
  const Batch& p = args.params;
  const std::int64_t row_tiles = std::int64_t{p.batch} * p.heads_q * args.row_tiles;
  const std::int64_t key_tiles = std::int64_t{p.batch} * p.heads_kv * args.key_tiles;
  const std::int64_t blocks = std::min<std::int64_t>(std::max(key_tiles, row_tiles), launch.multiprocessors);
  const Launch how{"hopper backward", blocks, kBackwardThreads, launch.config.shared_bytes, launch.stream};
  const auto kernel = launch.dtype == DType::fp16 ? kernel_of<Fp16, kD>(launch.config.shape.share)
                                                  : kernel_of<Bf16, kD>(launch.config.shape.share);
  if (blocks <= most_together(launch.multiprocessors) && launch_together(kernel, how, args)) return;
  args.rows.ticket = begin_row_pieces(launch, args);
  launch_kernel(kernel, how, args);
}

}  // namespace strobe::cuda::sm90
