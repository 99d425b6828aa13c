// Adds up what the blocks of a split left for each row: one warp for 32 columns of a row, since decoding has few rows
// and each may have a hundred splits to wait for.
#include "attention/cuda/splits.h"

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"

namespace strobe::cuda {

namespace {

constexpr int kCombineWarps = 4;

struct CombineArgs {
  Params params;
  Splits splits;
  int row_parts;    // of kWarpLanes columns each
  int head_blocks;  // of kCombineWarps parts of rows, in the longest sequence
};

// O = sum_s exp(lse_s - lse) O_s, with lse over the splits and the sink. Lanes share out the splits for their weights;
// then each lane has a column, and its loads over the splits are under way together.
template <class T>
__global__ void __launch_bounds__(kCombineWarps* kWarpLanes) combine_kernel(const __grid_constant__ CombineArgs args) {
  const Params& p = args.params;
  const Splits& partial = args.splits;
  unsigned index = blockIdx.x;
  const int part = static_cast<int>(index % args.head_blocks) * kCombineWarps + warp_index();
  index /= args.head_blocks;
  const int head = static_cast<int>(index % p.heads_q);
  const int b = static_cast<int>(index / p.heads_q);
  const int i = part / args.row_parts;
  const int column = part % args.row_parts * kWarpLanes + lane_index();
  const Sequence sequence(p, b);
  if (i >= sequence.rows_written(p)) return;
  const std::int64_t row = lse_index(p, sequence, b, head, i);
  const Keys keys = sequence.allowed(i);
  const bool has_keys = i < sequence.q_length && keys.lo < keys.hi;
  const int splits = has_keys ? partial.count : 0;

  constexpr int kOfALane = kMostSplits / kWarpLanes;
  float lse[kOfALane];  // of the splits lane, lane + 32, ...
  float highest = kMinusInfinity;
#pragma unroll
  for (int n = 0; n < kOfALane; ++n) {
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
  for (int n = 0; n < kOfALane; ++n) {
    const float weight = exp2f((lse[n] - base) * kLog2E);
    store_shared(weights + static_cast<std::uint32_t>((n * kWarpLanes + lane_index()) * 4), float_to_bits(weight));
    sum += weight;
  }
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) sum += shuffle_xor(sum, step);
  const RowResult result = finish_row(highest, sum, has_keys, p.sinks ? p.sinks + head : nullptr);
  if (p.lse && column == 0) p.lse[row] = result.lse;
  warp_sync();
  if (column >= p.dv_dim) return;

  float o = 0;
#pragma unroll 8
  for (int s = 0; s < splits; ++s) {
    const float weight = bits_to_float(load_shared(weights + static_cast<std::uint32_t>(s * 4)));
    // 0 times what is not finite would be NaN.
    o += weight == 0 ? 0 : weight * partial.o[(s * partial.rows + row) * partial.d + column];
  }
  const float value = result.inverse == 0 ? 0 : o * result.inverse;
  auto* to = static_cast<ElementType<T>*>(p.o.data) + head_offset(p.o, b, head, sequence.q_begin + i) + column;
  if constexpr (!kIsFp32<T>) {
    *to = static_cast<std::uint16_t>(pack<T>(value, 0));
  } else {
    *to = value;
  }
}

}  // namespace

void combine_splits(const Params& p, const Splits& splits, DType dtype, void* stream) {
  if (splits.count == 1) return;
  const int row_parts = (p.dv_dim + kWarpLanes - 1) / kWarpLanes;
  const int head_blocks = (p.max_q * row_parts + kCombineWarps - 1) / kCombineWarps;
  const CombineArgs args{p, splits, row_parts, head_blocks};
  const Launch start{"forward, combine", std::int64_t{p.batch} * p.heads_q * head_blocks, kCombineWarps * kWarpLanes,
                     kCombineWarps * kMostSplits * sizeof(float), stream};
  switch (dtype) {
    case DType::fp16: return launch_kernel(combine_kernel<Fp16>, start, args);
    case DType::bf16: return launch_kernel(combine_kernel<Bf16>, start, args);
    case DType::fp32: return launch_kernel(combine_kernel<Fp32>, start, args);
  }
}

}  // namespace strobe::cuda
