// What backward does row by row: delta before the tiles, the gradient of the sinks after it, rows of dbias.
#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/backward/launch.h"

namespace strobe::cuda::sm80 {

namespace {

constexpr int kRowThreads = 256;

constexpr int kDeltaRows = 16 * kRowThreads / kWarpLanes;

struct DeltaArgs {
  BackwardArgs backward;
  int row_blocks;  // of kDeltaRows rows, in the longest sequence
};

// delta of every row; a warp takes 16. For 16 bits; fp32 has row_sums.cuh.
template <class T>
__global__ void __launch_bounds__(kRowThreads) delta_kernel(const __grid_constant__ DeltaArgs args) {
  const BackwardParams& p = args.backward.params;
  unsigned index = blockIdx.x;
  const int first = static_cast<int>(index % args.row_blocks) * kDeltaRows + warp_index() * 16;
  index /= args.row_blocks;
  const int head = static_cast<int>(index % p.heads_q);
  const int b = static_cast<int>(index / p.heads_q);
  const Sequence sequence(p, b);
  float delta[2];
  const int row = first + delta_of_16<T>({p.o, p.d_o, p.dv_dim}, sequence, b, head, first, delta);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = row + 8 * h;
    if (row >= first && i < sequence.q_length) args.backward.delta[lse_index(p, sequence, b, head, i)] = delta[h];
  }
}

// dsinks = - sum of exp(sink - LSE) * delta over the rows of a head: one block a head, always in the same order.
__global__ void __launch_bounds__(kRowThreads) dsinks_kernel(const __grid_constant__ BackwardArgs args) {
  const BackwardParams& p = args.params;
  const int head = static_cast<int>(blockIdx.x);
  const float sink = p.sinks[head];
  float sum = 0;
  for (int b = 0; b < p.batch; ++b) {
    const Sequence sequence(p, b);
    for (int i = static_cast<int>(threadIdx.x); i < sequence.q_length; i += kRowThreads) {
      const std::int64_t row = lse_index(p, sequence, b, head, i);
      const float lse = p.lse[row];
      if (lse == kMinusInfinity) continue;
      const float log2_sum = args.log2_sums ? args.log2_sums[row] : 0;
      sum -= exp2f((sink - lse) * kLog2E - log2_sum) * args.delta[row];
    }
  }
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) sum += shuffle_xor(sum, step);
  const std::uint32_t sums = shared_base();
  if (lane_index() == 0) store_shared(sums + static_cast<std::uint32_t>(warp_index() * 4), float_to_bits(sum));
  block_sync();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (int w = 0; w < kRowThreads / kWarpLanes; ++w) {
    total += bits_to_float(load_shared(sums + static_cast<std::uint32_t>(w * 4)));
  }
  p.dsinks[head] = total;
}

// A row of dbias, one block each: zeros, or the sum of its parts in their order.
__global__ void __launch_bounds__(kRowThreads) dbias_rows_kernel(const __grid_constant__ BackwardArgs args) {
  const DbiasShape& shape = args.dbias;
  const Tensor& dbias = args.params.dbias;
  unsigned index = blockIdx.x;
  const float* sums = args.dbias_sums + std::int64_t{index} * shape.keys;
  const auto i = static_cast<std::int64_t>(index % shape.rows);
  index /= shape.rows;
  const auto h = static_cast<std::int64_t>(index % shape.heads);
  const auto b = static_cast<std::int64_t>(index / shape.heads);
  float* row = static_cast<float*>(dbias.data) + b * dbias.batch + h * dbias.head + i * dbias.row;
  const int parts = args.dbias_by == DbiasBy::summed ? args.dbias_parts : 0;
  const std::int64_t elements = std::int64_t{shape.batch} * shape.heads * shape.rows * shape.keys;
  for (int j = static_cast<int>(threadIdx.x); j < shape.keys; j += kRowThreads) {
    float sum = 0;
#pragma unroll 8
    for (int part = 0; part < parts; ++part) sum += sums[part * elements + j];
    row[j] = sum;
  }
}

void launch_dbias_rows(const BackwardLaunch& launch, const char* name) {
  const DbiasShape& shape = launch.args.dbias;
  launch_kernel(dbias_rows_kernel,
                {name, std::int64_t{shape.batch} * shape.heads * shape.rows, kRowThreads, 0, launch.stream},
                launch.args);
}

}  // namespace

void launch_delta(const BackwardLaunch& launch) {
  const BackwardParams& p = launch.args.params;
  const DeltaArgs args{launch.args, (p.max_q + kDeltaRows - 1) / kDeltaRows};
  const Launch start{"flash2 backward, delta", std::int64_t{p.batch} * p.heads_q * args.row_blocks, kRowThreads, 0,
                     launch.stream};
  switch (launch.dtype) {
    case DType::fp16: return launch_kernel(delta_kernel<Fp16>, start, args);
    case DType::bf16: return launch_kernel(delta_kernel<Bf16>, start, args);
    case DType::fp32: return;
  }
}

void launch_dsinks(const BackwardLaunch& launch) {
  launch_kernel(
      dsinks_kernel,
      {"flash2 backward, dsinks", launch.args.params.heads_q, kRowThreads, kRowThreads / kWarpLanes * 4, launch.stream},
      launch.args);
}

void launch_zero_dbias(const BackwardLaunch& launch) { launch_dbias_rows(launch, "flash2 backward, zero dbias"); }
void launch_add_dbias(const BackwardLaunch& launch) { launch_dbias_rows(launch, "flash2 backward, add dbias"); }

}  // namespace strobe::cuda::sm80
