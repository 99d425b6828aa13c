// Implements combine_splits() of splits.h: combines the partial results of rows whose keys were split. One warp
// computes 128 columns of a row.
#include "attention/cuda/splits.h"

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"

namespace strobe::cuda {

namespace {

constexpr int kCombineWarps = 4;
constexpr int kLaneColumns = 4;  // columns per lane: 16 bytes of fp32
constexpr int kWarpColumns = kWarpLanes * kLaneColumns;

struct CombineArgs {
  OutputParams params;
  Splits splits;
  KeyOptions options;
  int row_parts;    // warps per row, kWarpColumns columns each
  int head_blocks;  // blocks per head, for the longest sequence
};

// O = sum_s exp(lse_s - lse) O_s, with lse over the splits and the sink. Each lane computes exp(lse_s - lse) of every
// 32nd split, without the normalization to sum 1. Then each lane sums four columns, with the loads from several splits
// in flight.
template <class T>
__global__ void __launch_bounds__(kCombineWarps* kWarpLanes) combine_kernel(const __grid_constant__ CombineArgs args) {
  await_kernel_before();
  const OutputParams& p = args.params;
  const Splits& partial = args.splits;
  unsigned index = blockIdx.x;
  const int part = static_cast<int>(index % args.head_blocks) * kCombineWarps + warp_index();
  index /= args.head_blocks;
  const int head = static_cast<int>(index % p.heads_q);
  const int b = static_cast<int>(index / p.heads_q);
  const int i = part / args.row_parts;
  const int column = part % args.row_parts * kWarpColumns + lane_index() * kLaneColumns;
  const PaddedSequence sequence(Sequence(p, b), args.options.first_keys, b);
  if (i >= sequence.rows_written(p)) return;
  const std::int64_t row = lse_index(p, sequence, b, head, i);
  const Keys keys = sequence.allowed(i);
  const bool has_keys = i < sequence.seqlen_q && keys.lo < keys.hi;
  const int splits = has_keys ? partial.count : 0;

  constexpr int kSplitsPerLane = kMostSplits / kWarpLanes;
  float lse[kSplitsPerLane];  // splits lane, lane + 32, ...
  float highest = kMinusInfinity;
#pragma unroll
  for (int n = 0; n < kSplitsPerLane; ++n) {
    const int s = n * kWarpLanes + lane_index();
    lse[n] = s < splits ? partial.lse[s * partial.rows + row] : kMinusInfinity;
    highest = fmaxf(highest, lse[n]);
  }
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) highest = fmaxf(highest, shuffle_xor(highest, step));
  const float base = highest == kMinusInfinity ? 0 : highest;
  const std::uint32_t weights = shared_base() + static_cast<std::uint32_t>(warp_index() * kMostSplits * 4);
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kSplitsPerLane; ++n) {
    if (n * kWarpLanes >= splits) break;
    const float weight = exp2f((lse[n] - base) * kLog2E);
    store_shared(weights + static_cast<std::uint32_t>((n * kWarpLanes + lane_index()) * 4), float_to_bits(weight));
    sum += weight;
  }
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) sum += shuffle_xor(sum, step);
  const bool any = has_keys && !(args.options.has_mask && highest == kMinusInfinity);
  const RowResult result = finish_row(highest, sum, any, p.sinks ? p.sinks + head : nullptr);
  if (p.lse && column == 0) p.lse[row] = result.lse;
  warp_sync();
  if (column >= p.dv_dim) return;

  float o[kLaneColumns] = {};
#pragma unroll 8
  for (int s = 0; s < splits; ++s) {
    const float weight = bits_to_float(load_shared(weights + static_cast<std::uint32_t>(s * 4)));
    const float4 left = *reinterpret_cast<const float4*>(partial.o + (s * partial.rows + row) * partial.d + column);
    // A factor of 0 must not turn a non-finite value into NaN.
    const float more[kLaneColumns] = {left.x, left.y, left.z, left.w};
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) o[c] += weight == 0 ? 0 : weight * more[c];
  }
  auto* const to = static_cast<ElementType<T>*>(p.o.data) + head_offset(p.o, b, head, sequence.q_begin + i) + column;
#pragma unroll
  for (int c = 0; c < kLaneColumns; ++c) o[c] = result.inverse == 0 ? 0 : o[c] * result.inverse;
  if (p.o.vectors && column + kLaneColumns <= p.dv_dim) {
    if constexpr (!kIsFp32<T>) {
      *reinterpret_cast<uint2*>(to) = make_uint2(pack<T>(o[0], o[1]), pack<T>(o[2], o[3]));
    } else {
      *reinterpret_cast<float4*>(to) = make_float4(o[0], o[1], o[2], o[3]);
    }
    return;
  }
#pragma unroll
  for (int c = 0; c < kLaneColumns; ++c) {
    if (column + c >= p.dv_dim) return;
    if constexpr (!kIsFp32<T>) {
      to[c] = static_cast<std::uint16_t>(pack<T>(o[c], 0));
    } else {
      to[c] = o[c];
    }
  }
}

}  // namespace

void combine_splits(const OutputParams& p, const Splits& splits, DType dtype, void* stream, Waits waits,
                    const KeyOptions& options) {
  if (splits.count == 1) return;
  const int row_parts = (p.dv_dim + kWarpColumns - 1) / kWarpColumns;
  const int head_blocks = (p.max_seqlen_q * row_parts + kCombineWarps - 1) / kCombineWarps;
  const CombineArgs args{p, splits, options, row_parts, head_blocks};
  const Launch start{"forward, combine", std::int64_t{p.batch} * p.heads_q * head_blocks, kCombineWarps * kWarpLanes,
                     kCombineWarps * kMostSplits * sizeof(float), stream};
  switch (dtype) {
    case DType::fp16: return launch_kernel(combine_kernel<Fp16>, start, args, waits);
    case DType::bf16: return launch_kernel(combine_kernel<Bf16>, start, args, waits);
    case DType::fp32: return launch_kernel(combine_kernel<Fp32>, start, args, waits);
  }
}

}  // namespace strobe::cuda
