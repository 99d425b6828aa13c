// The launches of one padded head dimension; each d<d>.cu instantiates them, so that they compile side by side.
#pragma once

#include <algorithm>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/backward/kernel.cuh"
#include "attention/cuda/sm90/backward/launch.h"
#include "attention/cuda/sm90/backward/rows.cuh"

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
void launch_backward_kernels(const BackwardLaunch& launch, const RowFactsArgs& facts, const BackwardArgs& args) {
  constexpr int kRows = backward_rows(kD);
  const Batch& p = args.params;
  const std::int64_t row_tiles = std::int64_t{p.batch} * p.heads_q * args.row_tiles;
  const std::int64_t key_tiles = std::int64_t{p.batch} * p.heads_kv * args.key_tiles;
  const std::int64_t blocks = std::max(key_tiles, row_tiles);
  const auto start = [&]<class T>() {
    launch_kernel(row_facts_kernel<T, kD>, {"hopper backward, delta", row_tiles, 2 * kRows, 0, launch.stream}, facts);
    launch_kernel(kernel_of<T, kD>(launch.config.shape.share),
                  {"hopper backward", std::min<std::int64_t>(blocks, launch.multiprocessors), kBackwardThreads,
                   launch.config.shared_bytes, launch.stream},
                  args, Waits::in_kernel);
  };
  if (launch.dtype == DType::fp16) {
    start.template operator()<Fp16>();
  } else {
    start.template operator()<Bf16>();
  }
}

}  // namespace strobe::cuda::sm90
