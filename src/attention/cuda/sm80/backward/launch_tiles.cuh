// The launches of one head dimension; each d<dim>.cu instantiates them, so that they compile side by side.
#pragma once

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/backward/dbias.cuh"
#include "attention/cuda/sm80/backward/kernel.cuh"
#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm80/backward/round_dq.cuh"
#include "attention/cuda/sm80/backward/row_sums.cuh"

namespace strobe::cuda::sm80 {

template <int kD>
void launch_backward_tiles(const BackwardLaunch& launch) {
  const BackwardArgs& args = launch.args;
  const Params& p = args.params;
  const auto start = [&]<class T, BackwardKind kKind>() {
    constexpr BackwardShape kShape = backward_shape(kD, kKind);
    constexpr int kThreads = kShape.warps * kWarpLanes;
    launch_kernel(backward_kernel<T, kD, kKind>,
                  {"flash2 backward", std::int64_t{p.batch} * p.heads_kv * args.key_tiles, kThreads,
                   launch.config.shared_bytes, launch.stream},
                  args);
    launch_kernel(round_dq_kernel<T, kD, kKind>,
                  {"flash2 backward, dQ", std::int64_t{p.batch} * p.heads_q * args.row_tiles, kThreads,
                   static_cast<std::size_t>(kShape.rows * kD * 2), launch.stream},
                  args);
  };
  const auto start_kind = [&]<BackwardKind kKind>() {
    if (launch.dtype == DType::fp16) {
      start.template operator()<Fp16, kKind>();
    } else {
      start.template operator()<Bf16, kKind>();
    }
  };
  if (launch.config.kind == BackwardKind::plain) return start_kind.template operator()<BackwardKind::plain>();
  if constexpr (kD == 64 || kD == 128 || kD == 256) start_kind.template operator()<BackwardKind::general>();
}

template <int kD>
void launch_row_sums(const BackwardLaunch& launch) {
  if constexpr (kD == 64 || kD == 128 || kD == 256) {
    constexpr BackwardShape kShape = backward_shape(kD, BackwardKind::general);
    const Params& p = launch.args.params;
    const Launch start{"flash2 backward, row sums", std::int64_t{p.batch} * p.heads_q * launch.args.row_tiles,
                       kShape.warps * kWarpLanes,
                       static_cast<std::size_t>(2 * kD) * (2 * kShape.rows + 2 * kShape.keys), launch.stream};
    if (launch.dtype == DType::fp16) {
      launch_kernel(row_sums_kernel<Fp16, kD>, start, launch.args);
    } else {
      launch_kernel(row_sums_kernel<Bf16, kD>, start, launch.args);
    }
  }
}

template <int kD>
void launch_dbias(const BackwardLaunch& launch) {
  if constexpr (kD == 64 || kD == 128 || kD == 256) {
    constexpr BackwardShape kShape = backward_shape(kD, BackwardKind::general);
    const DbiasShape& shape = launch.dbias;
    const DbiasArgs args{launch.args, shape, (shape.rows + kShape.rows - 1) / kShape.rows};
    const Launch start{"flash2 backward, dbias",
                       std::int64_t{shape.batch} * shape.heads * args.row_tiles * launch.args.key_tiles,
                       kShape.warps * kWarpLanes,
                       static_cast<std::size_t>(2 * kD) * (2 * kShape.rows + 2 * kShape.keys), launch.stream};
    if (launch.dtype == DType::fp16) {
      launch_kernel(dbias_kernel<Fp16, kD>, start, args);
    } else {
      launch_kernel(dbias_kernel<Bf16, kD>, start, args);
    }
  }
}

}  // namespace strobe::cuda::sm80
