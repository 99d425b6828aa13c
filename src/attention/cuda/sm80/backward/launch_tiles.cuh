// The launches of one head dimension; each d<dim>.cu instantiates them, so that they compile side by side.
#pragma once

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/backward/dbias.cuh"
#include "attention/cuda/sm80/backward/kernel.cuh"
#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm80/backward/round_dq.cuh"
#include "attention/cuda/sm80/backward/row_sums.cuh"

namespace strobe::cuda::sm80 {

// Head dimensions that general kernels are there for: config.h.
template <class T, int kD>
inline constexpr bool kHasGeneral = kD == 64 || kD == 128 || kD == 256 || (kD == 32 && !kIsFp32<T>);

// start.operator()<T>() for the type of the launch.
template <class Start>
void with_type(DType dtype, Start&& start) {
  switch (dtype) {
    case DType::fp16: return start.template operator()<Fp16>();
    case DType::bf16: return start.template operator()<Bf16>();
    case DType::fp32: return start.template operator()<Fp32>();
  }
}

template <int kD>
void launch_backward_tiles(const BackwardLaunch& launch) {
  const BackwardArgs& args = launch.args;
  const BackwardParams& p = args.params;
  const auto start = [&]<class T, BackwardKind kKind>() {
    constexpr BackwardShape kShape = backward_shape(kD, kKind, kParts<T>);
    constexpr int kThreads = kShape.warps * kWarpLanes;
    launch_kernel(backward_kernel<T, kD, kKind>,
                  {"flash2 backward", std::int64_t{p.batch} * p.heads_kv * args.key_tiles, kThreads,
                   launch.config.shared_bytes, launch.stream},
                  args);
    launch_kernel(round_dq_kernel<T, kD, kKind>,
                  {"flash2 backward, dQ", std::int64_t{p.batch} * p.heads_q * args.row_tiles, kThreads,
                   !kIsFp32<T> ? static_cast<std::size_t>(kShape.rows * kD * 2) : 0, launch.stream},
                  args);
  };
  const bool plain = launch.config.kind == BackwardKind::plain;
  with_type(launch.dtype, [&]<class T>() {
    if constexpr (!kIsFp32<T>) {
      if (plain) return start.template operator()<T, BackwardKind::plain>();
    } else if constexpr (kD == 32 || kD == 64) {
      if (plain && launch.config.parts == Parts::rounded) return start.template operator()<Tf32, BackwardKind::plain>();
      if (plain) return start.template operator()<Fp32Scaled, BackwardKind::plain>();
    }
    if constexpr (!kIsFp32<T> && (kD == 64 || kD == 128)) {
      if (launch.config.kind == BackwardKind::options) return start.template operator()<T, BackwardKind::options>();
    }
    if constexpr (kHasGeneral<T, kD>) start.template operator()<T, BackwardKind::general>();
  });
}

// The arguments for a kernel that has the general tiles, whatever those of the plan are.
inline BackwardArgs with_tiles(BackwardArgs args, const BackwardShape& shape) {
  args.row_tiles = (args.params.max_q + shape.rows - 1) / shape.rows;
  args.key_tiles = (args.params.max_k + shape.keys - 1) / shape.keys;
  return args;
}

// Shared memory of a kernel that holds one tile each of Q, dO, K and V.
template <class T, int kD>
constexpr std::size_t four_tiles(const BackwardShape& shape) {
  return static_cast<std::size_t>(2 * kPlanes<T> * kD) * (2 * shape.rows + 2 * shape.keys);
}

template <int kD>
void launch_row_sums(const BackwardLaunch& launch) {
  const BackwardParams& p = launch.args.params;
  with_type(launch.dtype, [&]<class T>() {
    if constexpr (kHasGeneral<T, kD> || kD == 32) {  // fp32 takes it for plain problems too
      constexpr BackwardShape kShape = backward_shape(kD, BackwardKind::general, kParts<T>);
      const BackwardArgs args = with_tiles(launch.args, kShape);
      launch_kernel(row_sums_kernel<T, kD>,
                    {"flash2 backward, row sums", std::int64_t{p.batch} * p.heads_q * args.row_tiles,
                     kShape.warps * kWarpLanes, four_tiles<T, kD>(kShape), launch.stream},
                    args);
    }
  });
}

template <int kD>
void launch_dbias(const BackwardLaunch& launch) {
  with_type(launch.dtype, [&]<class T>() {
    if constexpr (kHasGeneral<T, kD>) {
      constexpr BackwardShape kShape = backward_shape(kD, BackwardKind::general, kParts<T>);
      const DbiasShape& shape = launch.args.dbias;
      const DbiasArgs args{with_tiles(launch.args, kShape), (shape.rows + kShape.rows - 1) / kShape.rows};
      const std::int64_t tiles = std::int64_t{shape.batch} * shape.heads * args.row_tiles * args.backward.key_tiles;
      launch_kernel(dbias_kernel<T, kD>,
                    {"flash2 backward, dbias", tiles * launch.args.dbias_parts, kShape.warps * kWarpLanes,
                     four_tiles<T, kD>(kShape), launch.stream},
                    args);
    }
  });
}

}  // namespace strobe::cuda::sm80
