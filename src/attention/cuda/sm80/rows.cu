// Row kernels of the sm80 backward; backward/launch.cpp launches them. Before the key tiles they check magnitudes
// (spread), compute delta and clear dbias. After the key tiles they compute the gradient of the sinks and add the
// partial sums of dbias.
#include <climits>

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/device/groups.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/backward/launch.h"

namespace strobe::cuda::sm80 {

namespace {

// The spread kernel decides if the fp32 kernels with scales (groups.cuh) are exact enough. If elements that share a
// scale differ too much in magnitude, or if |LSE| is large, the kernels without scales compute the problem instead. The
// check runs before the key tiles, so only one of the two kinds of kernels computes.

constexpr int kSpreadWarps = 8;
constexpr int kLanes = 8;  // per row, one chunk each: kernels with scales support head dimensions up to 64

struct SpreadArgs {
  SequenceParams params;
  Indices first_keys;
  Tensor q, k, v, d_o;
  const float* lse;
  std::uint32_t* spread;       // set to 1 if the kernels with scales are not exact enough
  int row_groups, key_groups;  // for the longest sequence; one warp per group
  int most;                    // allowed powers of two between the largest magnitude of a group and that of a chunk
  bool looks_at_lse;           // false with TF32, whose rounding error hides that of a large LSE
};

// Returns true if one of this lane's chunks is too small for the scale of its group. The group starts at row `first`;
// `used` are the rows that matter. Chunks of zeros do not count.
__device__ __forceinline__ bool is_spread(const Rows<Fp32>& from, int first, Keys used, int most) {
  const int chunk = lane_index() % kLanes;
  LargestFinite largest;   // in the group
  int smallest = INT_MAX;  // minimum over the maxima of this lane's chunks
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
  const SequenceParams& p = args.params;
  const std::int64_t of_rows = std::int64_t{p.batch} * p.heads_q * args.row_groups;
  std::int64_t index = std::int64_t{blockIdx.x} * kSpreadWarps + warp_index();
  const bool is_rows = index < of_rows;
  if (!is_rows) index -= of_rows;
  const int groups = is_rows ? args.row_groups : args.key_groups, heads = is_rows ? p.heads_q : p.heads_kv;
  const int first = static_cast<int>(index % groups) * kGroupRows;
  const int head = static_cast<int>(index / groups % heads);
  const std::int64_t b = index / groups / heads;
  if (b >= p.batch) return;
  const PaddedSequence sequence(Sequence(p, static_cast<int>(b)), args.first_keys, static_cast<int>(b));
  if (sequence.seqlen_q == 0 || sequence.seqlen_k == 0) return;
  const Keys used = is_rows ? sequence.rows_of(0, sequence.seqlen_k - 1) : sequence.some(0, sequence.seqlen_q - 1);
  const auto differ = [&](const Tensor& tensor, int columns) {
    const std::int64_t begin = is_rows ? sequence.q_begin : sequence.k_begin;
    const Rows<Fp32> rows = rows_at<Fp32>(tensor, head_offset(tensor, static_cast<int>(b), head, begin), columns);
    return is_spread(rows, first, used, args.most);
  };
  const bool a = differ(is_rows ? args.q : args.k, p.d), c = differ(is_rows ? args.d_o : args.v, p.dv_dim);
  const int row = first + lane_index();
  const bool large = is_rows && args.looks_at_lse && lane_index() < kGroupRows && row >= used.lo && row < used.hi &&
                     is_large_lse(args.lse[lse_index(p, sequence, static_cast<int>(b), head, row)]);
  if (a || c || large) *args.spread = 1;  // every writer stores the same value
}

constexpr int kRowThreads = 256;

constexpr int kDeltaRows = 16 * kRowThreads / kWarpLanes;

struct DeltaArgs {
  OutputParams params;
  Tensor d_o, d_lse;
  float* delta;
  int row_blocks;  // blocks of kDeltaRows rows per head, for the longest sequence
};

// Computes delta of every row, 16 rows per warp. For 16-bit types only; fp32 uses backward/sums.cuh.
template <class T>
__global__ void __launch_bounds__(kRowThreads) delta_kernel(const __grid_constant__ DeltaArgs args) {
  const OutputParams& p = args.params;
  unsigned index = blockIdx.x;
  const int first = static_cast<int>(index % args.row_blocks) * kDeltaRows + warp_index() * 16;
  index /= args.row_blocks;
  const int head = static_cast<int>(index % p.heads_q);
  const int b = static_cast<int>(index / p.heads_q);
  const Sequence sequence(p, b);
  float delta[2];
  const int row = first + delta_of_16<T>({p.o, args.d_o, p.dv_dim}, sequence, b, head, first, delta);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = row + 8 * h;
    if (row < first || i >= sequence.seqlen_q) continue;
    const std::int64_t index = lse_index(p, sequence, b, head, i);
    const bool ignored = !args.d_lse.data || p.lse[index] == kMinusInfinity;
    args.delta[index] = ignored ? delta[h] : delta[h] - d_lse_at(args.d_lse, sequence, b, head, i);
  }
}

struct DsinksArgs {
  OutputParams params;
  const float *delta, *log2_sums;  // as in BackwardArgs
  float* dsinks;
};

// dsinks = - sum of exp(sink - LSE) * delta over the rows of a head. One block per head adds in a fixed order.
__global__ void __launch_bounds__(kRowThreads) dsinks_kernel(const __grid_constant__ DsinksArgs args) {
  const OutputParams& p = args.params;
  const int head = static_cast<int>(blockIdx.x);
  const float sink = p.sinks[head];
  float sum = 0;
  for (int b = 0; b < p.batch; ++b) {
    const Sequence sequence(p, b);
    for (int i = static_cast<int>(threadIdx.x); i < sequence.seqlen_q; i += kRowThreads) {
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
  args.dsinks[head] = total;
}

struct DbiasRowsArgs {
  Tensor dbias;
  DbiasShape shape;
  const float* sums;  // [parts][elements of dbias]
  int parts;          // 0: sets dbias to zero
};

// Each block writes one row of dbias: zeros, or the sum of the partial sums in a fixed order.
__global__ void __launch_bounds__(kRowThreads) dbias_rows_kernel(const __grid_constant__ DbiasRowsArgs args) {
  const DbiasShape& shape = args.shape;
  const Tensor& dbias = args.dbias;
  unsigned index = blockIdx.x;
  const float* sums = args.sums + std::int64_t{index} * shape.keys;
  const auto i = static_cast<std::int64_t>(index % shape.rows);
  index /= shape.rows;
  const auto h = static_cast<std::int64_t>(index % shape.heads);
  const auto b = static_cast<std::int64_t>(index / shape.heads);
  float* row = static_cast<float*>(dbias.data) + b * dbias.batch + h * dbias.head + i * dbias.row;
  const std::int64_t elements = std::int64_t{shape.batch} * shape.heads * shape.rows * shape.keys;
  for (int j = static_cast<int>(threadIdx.x); j < shape.keys; j += kRowThreads) {
    float sum = 0;
#pragma unroll 8
    for (int part = 0; part < args.parts; ++part) sum += sums[part * elements + j];
    row[j] = sum;
  }
}

void launch_dbias_rows(const BackwardLaunch& launch, const char* name, int parts) {
  const DbiasShape& shape = launch.args.dbias;
  const DbiasRowsArgs args{launch.args.params.dbias, shape, launch.args.dbias_sums, parts};
  launch_kernel(dbias_rows_kernel,
                {name, std::int64_t{shape.batch} * shape.heads * shape.rows, kRowThreads, 0, launch.stream}, args);
}

}  // namespace

void launch_spread(const BackwardLaunch& launch) {
  const BackwardParams& p = launch.args.params;
  const auto groups = [](std::int64_t rows) { return static_cast<int>((rows + kGroupRows - 1) / kGroupRows); };
  const SpreadArgs args{.params = p,
                        .first_keys = p.first_keys,
                        .q = p.q,
                        .k = p.k,
                        .v = p.v,
                        .d_o = p.d_o,
                        .lse = p.lse,
                        .spread = launch.args.spread,
                        .row_groups = groups(p.max_seqlen_q),
                        .key_groups = groups(p.max_seqlen_k),
                        .most = kept_powers(launch.config.split_format),
                        .looks_at_lse = launch.config.split_format != SplitFormat::rounded};
  const std::int64_t warps =
      std::int64_t{p.batch} * p.heads_q * args.row_groups + std::int64_t{p.batch} * p.heads_kv * args.key_groups;
  launch_kernel(spread_kernel,
                {"flash2 backward, spread", (warps + kSpreadWarps - 1) / kSpreadWarps, kSpreadWarps * kWarpLanes, 0,
                 launch.stream},
                args);
}

void launch_delta(const BackwardLaunch& launch) {
  const BackwardParams& p = launch.args.params;
  const DeltaArgs args{p, p.d_o, p.d_lse, launch.args.delta, (p.max_seqlen_q + kDeltaRows - 1) / kDeltaRows};
  const Launch start{"flash2 backward, delta", std::int64_t{p.batch} * p.heads_q * args.row_blocks, kRowThreads, 0,
                     launch.stream};
  switch (launch.dtype) {
    case DType::fp16: return launch_kernel(delta_kernel<Fp16>, start, args);
    case DType::bf16: return launch_kernel(delta_kernel<Bf16>, start, args);
    case DType::fp32: return;
  }
}

void launch_dsinks(const BackwardLaunch& launch) {
  const BackwardArgs& from = launch.args;
  const DsinksArgs args{from.params, from.delta, from.log2_sums, from.params.dsinks};
  launch_kernel(
      dsinks_kernel,
      {"flash2 backward, dsinks", from.params.heads_q, kRowThreads, kRowThreads / kWarpLanes * 4, launch.stream}, args);
}

void launch_zero_dbias(const BackwardLaunch& launch) { launch_dbias_rows(launch, "flash2 backward, zero dbias", 0); }
void launch_add_dbias(const BackwardLaunch& launch) {
  launch_dbias_rows(launch, "flash2 backward, add dbias", launch.args.dbias_parts);
}

}  // namespace strobe::cuda::sm80
