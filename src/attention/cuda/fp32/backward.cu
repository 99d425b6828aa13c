// Backward of fp32/launch.h on CUDA cores: one warp per row for dQ, then one per key for dK and dV, then one per
// element of dbias, then one per head for dsinks. All sums have a fixed order. The dQ kernel computes the maximum and
// sum of each row again, so that no gradient depends on the rounding of O and LSE.
#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/fp32/launch.h"
#include "attention/cuda/fp32/pair.cuh"
#include "attention/cuda/launch_kernel.cuh"

namespace strobe::cuda::fp32 {

namespace {

// Statistics of a row, indexed like LSE: largest score, inverse of the sum of exp(score - largest), delta. Stores the
// inverse instead of LSE, because rounding LSE would scale every probability of the row.
struct RowFacts {
  float highest, inverse, delta, unused;  // delta: minus the gradient of LSE
};

// Probability of a score in its row.
__device__ __forceinline__ float weight_of(float score, const RowFacts& row) {
  return exp2f((score - row.highest) * kLog2E) * row.inverse;
}

struct Args {
  BackwardParams params;
  RowFacts* facts;
  DbiasSizes dbias;
};

// Gradient terms of row i and key j.
struct PairGradient {
  float weight;   // probability, with dropout
  float d_score;  // with respect to the biased score
  float d_dot;    // with respect to q.k
};

__device__ __forceinline__ PairGradient gradient_of(const Params& p, const HeadScoreOptions& options,
                                                    const PaddedSequence& sequence, int i, int j, const RowFacts& row,
                                                    float q_dot_k, float do_dot_v) {
  const Score score = score_of(p, options, sequence, i, j, q_dot_k);
  const float weight = weight_of(score.value, row);
  const float factor = kept(p, options, i, j);
  const float d_score = weight * (multiply_rounded(do_dot_v, factor) - row.delta);
  return {weight * factor, d_score, d_score * score.slope * p.scale};
}

__device__ __forceinline__ bool is_empty(const RowFacts& row) { return row.highest == kMinusInfinity; }

__global__ void __launch_bounds__(kWarps* kWarpLanes) dq_kernel(const __grid_constant__ Args args) {
  const BackwardParams& p = args.params;
  const WarpPlace place(p.max_seqlen_q, p.heads_q);
  const int b = place.b, head = place.head, i = place.i;
  const PaddedSequence sequence(p, b);
  if (i >= sequence.rows_written(p)) return;
  const HeadScoreOptions options(p, b, head);
  Keys keys = sequence.allowed(i);
  if (i >= sequence.seqlen_q) keys = {0, 0};
  const auto load_key = [&](const Tensor& tensor, Row& row, int j, int columns) {
    row.load(tensor, head_offset(tensor, b, head / p.group, sequence.k_begin + j), columns);
  };

  Row q, d_o;
  RowSum dq;
  dq.clear();
  RowFacts row{kMinusInfinity, 0, 0, 0};
  if (options.mask.allows_any(i, keys)) {
    q.load(p.q, head_offset(p.q, b, head, sequence.q_begin + i), p.d);
    d_o.load(p.d_o, head_offset(p.d_o, b, head, sequence.q_begin + i), p.dv_dim);
    Sum sum;
    Sum weighted;  // sum of exp(score - highest) * dP; divided by `sum` it is delta
    const auto raise = [&](float s) {
      const float shrink = row.highest == kMinusInfinity ? 0 : exp2f((row.highest - s) * kLog2E);
      sum.shrink(shrink);
      weighted.shrink(shrink);
      row.highest = s;
    };
    if (p.sinks && p.sinks[head] != kMinusInfinity) {
      raise(p.sinks[head]);
      sum.add(1);
    }
    for (int j = keys.lo; j < keys.hi; ++j) {
      if (masked(options, i, j)) continue;
      Row k, v;
      load_key(p.k, k, j, p.d);
      load_key(p.v, v, j, p.dv_dim);
      const float s = score_of(p, options, sequence, i, j, dot(q, k)).value;
      if (s == kMinusInfinity) continue;
      if (!(s <= row.highest)) raise(s);  // also true for NaN, so that it reaches the sums
      const float weight = exp2f((s - row.highest) * kLog2E);
      sum.add(weight);
      weighted.add(weight * multiply_rounded(dot(d_o, v), kept(p, options, i, j)));
    }
    if (!is_empty(row)) {
      row.inverse = 1 / sum.total;
      row.delta = weighted.total / sum.total - d_lse_at(p.d_lse, sequence, b, head, i);
      for (int j = keys.lo; j < keys.hi; ++j) {
        if (masked(options, i, j)) continue;
        Row k, v;
        load_key(p.k, k, j, p.d);
        load_key(p.v, v, j, p.dv_dim);
        dq.add(gradient_of(p, options, sequence, i, j, row, dot(q, k), dot(d_o, v)).d_dot, k);
      }
    }
  }
  dq.flush();
  dq.total.store(p.dq, head_offset(p.dq, b, head, sequence.q_begin + i), p.d, 1);
  if (lane_index() == 0) args.facts[lse_index(p, sequence, b, head, i)] = row;
}

__global__ void __launch_bounds__(kWarps* kWarpLanes) dkv_kernel(const __grid_constant__ Args args) {
  const BackwardParams& p = args.params;
  const WarpPlace place(p.max_seqlen_k, p.heads_kv);
  const int b = place.b, j = place.i;
  const PaddedSequence sequence(p, b);
  if (j >= sequence.keys_written(p)) return;
  Row k, v;
  RowSum dk, dv;
  dk.clear();
  dv.clear();
  if (j < sequence.seqlen_k) {
    k.load(p.k, head_offset(p.k, b, place.head, sequence.k_begin + j), p.d);
    v.load(p.v, head_offset(p.v, b, place.head, sequence.k_begin + j), p.dv_dim);
    const Keys rows = sequence.rows_of(j, j);
    for (int head = place.head * p.group; head < (place.head + 1) * p.group; ++head) {
      const HeadScoreOptions options(p, b, head);
      for (int i = rows.lo; i < rows.hi; ++i) {
        const RowFacts row = args.facts[lse_index(p, sequence, b, head, i)];
        if (is_empty(row) || masked(options, i, j)) continue;
        Row q, d_o;
        q.load(p.q, head_offset(p.q, b, head, sequence.q_begin + i), p.d);
        d_o.load(p.d_o, head_offset(p.d_o, b, head, sequence.q_begin + i), p.dv_dim);
        const PairGradient pair = gradient_of(p, options, sequence, i, j, row, dot(q, k), dot(d_o, v));
        dk.add(pair.d_dot, q);
        dv.add(pair.weight, d_o);
      }
    }
  }
  dk.flush();
  dv.flush();
  dk.total.store(p.dk, head_offset(p.dk, b, place.head, sequence.k_begin + j), p.d, 1);
  dv.total.store(p.dv, head_offset(p.dv, b, place.head, sequence.k_begin + j), p.dv_dim, 1);
}

// Each warp computes one element of dbias: the sum over the sequences, heads and rows that share it.
__global__ void __launch_bounds__(kWarps* kWarpLanes) dbias_kernel(const __grid_constant__ Args args) {
  const BackwardParams& p = args.params;
  const WarpPlace place(args.dbias.keys, args.dbias.batch * args.dbias.heads * args.dbias.rows);
  const int j = place.i;
  if (j >= args.dbias.keys) return;
  const int bias_row = place.head % args.dbias.rows;
  const int bias_head = place.head / args.dbias.rows % args.dbias.heads;
  const int bias_batch = place.head / args.dbias.rows / args.dbias.heads;
  Sum sum;
  for (int b = 0; b < p.batch; ++b) {
    if (args.dbias.batch == p.batch && b != bias_batch) continue;
    const PaddedSequence sequence(p, b);
    if (j >= sequence.seqlen_k) continue;
    const Keys rows = sequence.rows_of(j, j);
    for (int head = 0; head < p.heads_q; ++head) {
      if (args.dbias.heads == p.heads_q && head != bias_head) continue;
      const HeadScoreOptions options(p, b, head);
      Row k, v;
      k.load(p.k, head_offset(p.k, b, head / p.group, sequence.k_begin + j), p.d);
      v.load(p.v, head_offset(p.v, b, head / p.group, sequence.k_begin + j), p.dv_dim);
      const bool own_row = args.dbias.rows == p.max_seqlen_q;
      for (int i = own_row ? max(rows.lo, bias_row) : rows.lo; i < (own_row ? min(rows.hi, bias_row + 1) : rows.hi);
           ++i) {
        const RowFacts row = args.facts[lse_index(p, sequence, b, head, i)];
        if (is_empty(row) || masked(options, i, j)) continue;
        Row q, d_o;
        q.load(p.q, head_offset(p.q, b, head, sequence.q_begin + i), p.d);
        d_o.load(p.d_o, head_offset(p.d_o, b, head, sequence.q_begin + i), p.dv_dim);
        sum.add(gradient_of(p, options, sequence, i, j, row, dot(q, k), dot(d_o, v)).d_score);
      }
    }
  }
  if (lane_index() != 0) return;
  static_cast<float*>(
      p.dbias.data)[bias_batch * p.dbias.batch + bias_head * p.dbias.head + bias_row * p.dbias.row + j] = sum.total;
}

// One warp per head.
__global__ void __launch_bounds__(kWarpLanes) dsinks_kernel(const __grid_constant__ Args args) {
  const BackwardParams& p = args.params;
  const int head = static_cast<int>(blockIdx.x);
  float sum = 0;
  for (int b = 0; b < p.batch; ++b) {
    const PaddedSequence sequence(p, b);
    for (int i = lane_index(); i < sequence.seqlen_q; i += kWarpLanes) {
      const RowFacts row = args.facts[lse_index(p, sequence, b, head, i)];
      if (!is_empty(row)) sum -= weight_of(p.sinks[head], row) * row.delta;
    }
  }
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) sum += shuffle_xor(sum, step);
  if (lane_index() == 0) p.dsinks[head] = sum;
}

}  // namespace

std::size_t backward_bytes(std::size_t rows) { return rows * sizeof(RowFacts); }

void launch_backward(const BackwardParams& p, const DbiasSizes& dbias, void* workspace, void* stream) {
  const Args args{p, static_cast<RowFacts*>(workspace), dbias};
  const auto launch = [&](void (*kernel)(Args), const char* name, std::int64_t blocks, int threads) {
    launch_kernel(kernel, {name, blocks, threads, 0, stream}, args);
  };
  constexpr int kThreads = kWarps * kWarpLanes;
  launch(dq_kernel, "flash2 backward, dQ on CUDA cores", blocks_for(p.max_seqlen_q, std::int64_t{p.batch} * p.heads_q),
         kThreads);
  launch(dkv_kernel, "flash2 backward, dK and dV on CUDA cores",
         blocks_for(p.max_seqlen_k, std::int64_t{p.batch} * p.heads_kv), kThreads);
  if (p.dbias.data) {
    launch(dbias_kernel, "flash2 backward, dbias on CUDA cores",
           blocks_for(dbias.keys, std::int64_t{dbias.batch} * dbias.heads * dbias.rows), kThreads);
  }
  if (p.dsinks) launch(dsinks_kernel, "flash2 backward, dsinks on CUDA cores", p.heads_q, kWarpLanes);
}

}  // namespace strobe::cuda::fp32
