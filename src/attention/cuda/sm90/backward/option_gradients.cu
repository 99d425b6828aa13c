// Small kernels of the Hopper backward for gradients of score options: dsinks, after the key tiles, and zeros in dbias,
// before them. launch.cpp calls them.
#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/backward/option_gradients.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr int kThreads = 1024;

// dsinks = - sum of exp(sink - LSE) * delta over the rows of a head. One block per head adds in a fixed order.
__global__ void __launch_bounds__(kThreads) dsinks_kernel(const __grid_constant__ DsinksArgs args) {
  const SequenceParams& p = args.tiles.params;
  const int head = static_cast<int>(blockIdx.x);
  const float sink = args.sinks[head];
  float sum = 0;
  for (int b = 0; b < p.batch; ++b) {
    const Sequence sequence(p, b);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < sequence.seqlen_q; i += kThreads) {
      const float lse = args.lse[lse_index(p, sequence, b, head, i)];
      const std::int64_t tile = row_tile_index(args.tiles, sequence, b, head, i / args.rows, args.rows);
      const float delta = args.tiles.row_facts[(tile * args.facts + 1) * args.rows + i % args.rows];
      if (lse != kMinusInfinity) sum -= exp2_fast((sink - lse) * kLog2E) * delta;
    }
  }
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) sum += shuffle_xor(sum, step);
  __shared__ float sums[kThreads / kWarpLanes];
  if (lane_index() == 0) sums[warp_index()] = sum;
  block_sync();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (const float part : sums) total += part;
  args.dsinks[head] = total * args.scale;
}

struct ZeroArgs {
  Tensor to;
  DbiasShape shape;
};

// A warp clears one row.
__global__ void __launch_bounds__(kThreads) zero_kernel(const __grid_constant__ ZeroArgs args) {
  const DbiasShape& shape = args.shape;
  const std::int64_t index = std::int64_t{blockIdx.x} * (kThreads / kWarpLanes) + warp_index();
  const std::int64_t i = index % shape.rows, h = index / shape.rows % shape.heads, b = index / shape.rows / shape.heads;
  if (b >= shape.batch) return;
  float* const row = static_cast<float*>(args.to.data) + b * args.to.batch + h * args.to.head + i * args.to.row;
  for (int j = lane_index(); j < shape.keys; j += kWarpLanes) row[j] = 0;
}

}  // namespace

void launch_dsinks(const DsinksArgs& args, void* stream) {
  launch_kernel(dsinks_kernel, {"hopper backward, dsinks", args.tiles.params.heads_q, kThreads, 0, stream}, args);
}

void launch_zero_dbias(const Tensor& dbias, const DbiasShape& shape, void* stream) {
  constexpr int kRows = kThreads / kWarpLanes;
  const std::int64_t rows = std::int64_t{shape.batch} * shape.heads * shape.rows;
  launch_kernel(zero_kernel, {"hopper backward, zero dbias", (rows + kRows - 1) / kRows, kThreads, 0, stream},
                ZeroArgs{dbias, shape});
}

}  // namespace strobe::cuda::sm90
