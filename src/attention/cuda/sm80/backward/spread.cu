// Whether rows that share a scale (groups.cuh) differ too much in size for it, or scores are large: then the kernels
// with scales leave the problem to those without. Read before the tiles, so that only one of the two computes anything.
#include <climits>

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/backward/groups.cuh"
#include "attention/cuda/sm80/backward/launch.h"

namespace strobe::cuda::sm80 {

namespace {

constexpr int kSpreadWarps = 8;
constexpr int kLanes = 8;  // of a row, a chunk each: kernels with scales go to head dimension 64

struct SpreadArgs {
  BackwardArgs backward;
  int row_groups, key_groups;  // of the longest sequence, each a warp's
  int most;                    // powers of two between the largest of a group and the largest of a chunk
  bool looks_at_lse;           // not with tf32, which rounds by more than a large LSE shows
};

// A group of rows of a tensor, from `first` on; `used` of them matter. A chunk of zeros has no size.
__device__ __forceinline__ bool is_spread(const Rows<Fp32>& from, int first, Keys used, int most) {
  const int chunk = lane_index() % kLanes;
  LargestFinite largest;   // of the group
  int smallest = INT_MAX;  // of the largest of this lane's chunks
#pragma unroll
  for (int step = 0; step < kGroupRows; step += kWarpLanes / kLanes) {
    const int row = first + step + lane_index() / kLanes;
    ChunkCopy<Fp32, false, 0> copy;
    copy.take(0, from.data + row * from.row + chunk * 8, 1, true,
              row >= used.lo && row < used.hi ? from.columns - chunk * 8 : 0);
    LargestFinite of_chunk;
    copy.measure(of_chunk);
    largest.bits = max(largest.bits, of_chunk.bits);
    if (of_chunk.bits > LargestFinite().bits) smallest = min(smallest, of_chunk.bits);
  }
  return warp_max(largest.bits) - smallest > most << 23;
}

__global__ void __launch_bounds__(kSpreadWarps* kWarpLanes) spread_kernel(const __grid_constant__ SpreadArgs args) {
  const BackwardParams& p = args.backward.params;
  const std::int64_t of_rows = std::int64_t{p.batch} * p.heads_q * args.row_groups;
  std::int64_t index = std::int64_t{blockIdx.x} * kSpreadWarps + warp_index();
  const bool is_rows = index < of_rows;
  if (!is_rows) index -= of_rows;
  const int groups = is_rows ? args.row_groups : args.key_groups, heads = is_rows ? p.heads_q : p.heads_kv;
  const int first = static_cast<int>(index % groups) * kGroupRows;
  const int head = static_cast<int>(index / groups % heads);
  const std::int64_t b = index / groups / heads;
  if (b >= p.batch) return;
  const Sequence sequence(p, static_cast<int>(b));
  if (sequence.q_length == 0 || sequence.k_length == 0) return;
  const Keys used = is_rows ? sequence.rows_of(0, sequence.k_length - 1) : sequence.some(0, sequence.q_length - 1);
  const auto differ = [&](const Tensor& tensor, int columns) {
    const std::int64_t begin = is_rows ? sequence.q_begin : sequence.k_begin;
    const Rows<Fp32> rows = rows_at<Fp32>(tensor, head_offset(tensor, static_cast<int>(b), head, begin), columns);
    return is_spread(rows, first, used, args.most);
  };
  const bool a = differ(is_rows ? p.q : p.k, p.d), c = differ(is_rows ? p.d_o : p.v, p.dv_dim);
  const int row = first + lane_index();
  const bool large = is_rows && args.looks_at_lse && lane_index() < kGroupRows && row >= used.lo && row < used.hi &&
                     is_large_lse(p.lse[lse_index(p, sequence, static_cast<int>(b), head, row)]);
  if (a || c || large) *args.backward.spread = 1;  // whoever writes, writes this
}

}  // namespace

void launch_spread(const BackwardLaunch& launch) {
  const BackwardParams& p = launch.args.params;
  const auto groups = [](std::int64_t rows) { return static_cast<int>((rows + kGroupRows - 1) / kGroupRows); };
  const SpreadArgs args{launch.args, groups(p.max_q), groups(p.max_k), kept_powers(launch.config.parts),
                        launch.config.parts != Parts::rounded};
  const std::int64_t warps =
      std::int64_t{p.batch} * p.heads_q * args.row_groups + std::int64_t{p.batch} * p.heads_kv * args.key_groups;
  launch_kernel(spread_kernel,
                {"flash2 backward, spread", (warps + kSpreadWarps - 1) / kSpreadWarps, kSpreadWarps * kWarpLanes, 0,
                 launch.stream},
                args);
}

}  // namespace strobe::cuda::sm80
