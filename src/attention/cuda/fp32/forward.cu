// Forward of fp32/launch.h on CUDA cores, one warp per row: visits the keys in order with an online softmax.
#include "attention/cuda/fp32/launch.h"
#include "attention/cuda/fp32/pair.cuh"
#include "attention/cuda/launch_kernel.cuh"

namespace strobe::cuda::fp32 {

namespace {

__global__ void __launch_bounds__(kWarps* kWarpLanes) forward_kernel(const __grid_constant__ Params p) {
  const WarpPlace place(p.max_seqlen_q, p.heads_q);
  const PaddedSequence sequence(p, place.b);
  if (place.i >= sequence.rows_written(p)) return;
  const HeadScoreOptions options(p, place.b, place.head);
  Keys keys = sequence.allowed(place.i);
  if (place.i >= sequence.seqlen_q) keys = {0, 0};

  Row q;
  RowSum o;
  q.load(p.q, head_offset(p.q, place.b, place.head, sequence.q_begin + place.i), p.d);
  o.clear();
  float highest = kMinusInfinity;
  Sum sum;
  for (int j = keys.lo; j < keys.hi; ++j) {
    if (masked(options, place.i, j)) continue;
    Row k, v;
    k.load(p.k, head_offset(p.k, place.b, place.head / p.group, sequence.k_begin + j), p.d);
    v.load(p.v, head_offset(p.v, place.b, place.head / p.group, sequence.k_begin + j), p.dv_dim);
    const float s = score_of(p, options, sequence, place.i, j, dot(q, k)).value;
    if (s == kMinusInfinity) continue;
    if (!(s <= highest)) {  // also true if s is NaN
      const float factor = exp2f((highest - s) * kLog2E);
      sum.shrink(factor);
      o.shrink(factor);
      highest = s;
    }
    const float weight = exp2f((s - highest) * kLog2E);
    sum.add(weight);
    o.add(weight * kept(p, options, place.i, j), v);
  }
  const float* sink = p.sinks ? p.sinks + place.head : nullptr;
  const RowResult result = finish_row(highest, sum.total, options.mask.allows_any(place.i, keys), sink);
  o.flush();
  if (result.inverse == 0) o.clear();
  o.total.store(p.o, head_offset(p.o, place.b, place.head, sequence.q_begin + place.i), p.dv_dim, result.inverse);
  if (p.lse && lane_index() == 0) p.lse[lse_index(p, sequence, place.b, place.head, place.i)] = result.lse;
}

}  // namespace

void launch_forward(const Params& p, void* stream) {
  launch_kernel(forward_kernel,
                {"flash2 forward, CUDA cores", blocks_for(p.max_seqlen_q, std::int64_t{p.batch} * p.heads_q),
                 kWarps * kWarpLanes, 0, stream},
                p);
}

}  // namespace strobe::cuda::fp32
