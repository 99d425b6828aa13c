// Adds up what the blocks of a split left for each row: one warp a row.
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/forward/launch.h"

namespace strobe::cuda::sm80 {

namespace {

constexpr int kCombineWarps = 4;

struct CombineArgs {
  ForwardArgs forward;
  int d;           // padded head dimension
  int row_blocks;  // of kCombineWarps rows, in the longest sequence
};

// O = sum_s exp(lse_s - lse) O_s, with lse over the splits and the sink.
template <class T>
__global__ void __launch_bounds__(kCombineWarps* kWarpLanes) combine_kernel(const __grid_constant__ CombineArgs args) {
  const ForwardArgs& f = args.forward;
  const Params& p = f.params;
  unsigned index = blockIdx.x;
  const int i = static_cast<int>(index % args.row_blocks) * kCombineWarps + warp_index();
  index /= args.row_blocks;
  const int head = static_cast<int>(index % p.heads_q);
  const int b = static_cast<int>(index / p.heads_q);
  const Sequence sequence(p, b);
  if (i >= sequence.rows_written(p)) return;
  const std::int64_t row = lse_index(p, sequence, b, head, i);
  const Keys keys = sequence.allowed(i);
  const bool has_keys = i < sequence.q_length && keys.lo < keys.hi;
  float highest = kMinusInfinity;
  for (int s = 0; s < f.splits && has_keys; ++s) highest = fmaxf(highest, f.partial_lse[s * f.rows + row]);
  const float base = highest == kMinusInfinity ? 0 : highest;
  float sum = 0;
  for (int s = 0; s < f.splits && has_keys; ++s) sum += exp2f((f.partial_lse[s * f.rows + row] - base) * kLog2E);
  const RowResult result = finish_row(highest, sum, has_keys, p.sinks ? p.sinks + head : nullptr);
  if (p.lse && lane_index() == 0) p.lse[row] = result.lse;
  auto* to = static_cast<ElementType<T>*>(p.o.data) + head_offset(p.o, b, head, sequence.q_begin + i);
  for (int c = lane_index(); c < p.dv_dim; c += kWarpLanes) {
    float o = 0;
    for (int s = 0; s < f.splits && has_keys; ++s) {
      const float lse = f.partial_lse[s * f.rows + row];
      if (lse == kMinusInfinity) continue;  // the split had no key for this row
      o += exp2f((lse - base) * kLog2E) * f.partial_o[(s * f.rows + row) * args.d + c];
    }
    const float value = result.inverse == 0 ? 0 : o * result.inverse;
    if constexpr (kPlanes<T> == 1) {
      to[c] = static_cast<std::uint16_t>(pack<T>(value, 0));
    } else {
      to[c] = value;
    }
  }
}

}  // namespace

void launch_combine(const ForwardLaunch& launch) {
  const Params& p = launch.args.params;
  const int row_blocks = (p.max_q + kCombineWarps - 1) / kCombineWarps;
  const CombineArgs args{launch.args, launch.config.d, row_blocks};
  const Launch start{"flash2 forward, combine", std::int64_t{p.batch} * p.heads_q * row_blocks,
                     kCombineWarps * kWarpLanes, 0, launch.stream};
  switch (launch.dtype) {
    case DType::fp16: return launch_kernel(combine_kernel<Fp16>, start, args);
    case DType::bf16: return launch_kernel(combine_kernel<Bf16>, start, args);
    case DType::fp32: return launch_kernel(combine_kernel<Fp32>, start, args);
  }
}

}  // namespace strobe::cuda::sm80
