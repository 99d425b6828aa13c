// Row phases of the Hopper backward: preparation of LSE and delta before the key tiles, rounding of dQ after them.
// kernel.cuh and pairs.cuh call these functions.
#pragma once

#include <cooperative_groups.h>

#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/bias.cuh"
#include "attention/cuda/sm90/backward/dq.cuh"
#include "attention/cuda/sm90/backward/dropout.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/device/store.cuh"

namespace strobe::cuda::sm90 {

// One warp prepares a strip of 16 rows: it stores LSE and delta, and clears the dQ sum and the counters that belong to
// the strip.
template <class T, int kD, int kRows, class Args>
__device__ __forceinline__ void prepare_strip(const Args& args, std::int64_t strip) {
  constexpr int kStrips = kRows / 16;
  const SequenceParams& p = args.params;
  const int lane = lane_index();
  if (lane == 0) {
    if (strip == 0) *args.work_counter = 0;
    if (strip < std::int64_t{p.batch} * p.heads_kv) args.keys_done[strip] = 0;  // at least one strip per KV head exists
  }
  const RowTile place(args, static_cast<unsigned>(strip / kStrips));
  const int of_tile = static_cast<int>(strip % kStrips), first = of_tile * 16;
  const Sequence sequence(p, place.b);
  if (place.tile * kRows >= sequence.seqlen_q) return;
  const std::int64_t index = row_tile_index(args, sequence, place.b, place.head, place.tile, kRows);
  if (args.dq_semaphore && lane == 0 && of_tile == 0) args.dq_semaphore[index] = 0;
  float lse[2];  // LSE of rows lane / 4 and lane / 4 + 8; these loads overlap with the computation of delta
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = place.tile * kRows + first + lane / 4 + 8 * h;
    lse[h] = i < sequence.seqlen_q ? args.rows.lse[lse_index(p, sequence, place.b, place.head, i)] : kMinusInfinity;
  }
  auto* const sum = reinterpret_cast<float4*>(args.dq_sum + index * (kRows * kD) + first * kD);
#pragma unroll
  for (int i = 0; i < kD / 8; ++i) sum[i * 32 + lane] = make_float4(0, 0, 0, 0);
  if constexpr (HasBias<Args>) {
    float log2_sum[2];
    log2_sums_of_16<T, kD>(args, sequence, place, place.tile * kRows + first, lse, log2_sum);
    float* const sums = args.row_facts + (index * kRowFacts<Args> + 2) * kRows + first;
    if (lane % 4 == 0) sums[lane / 4] = log2_sum[0], sums[lane / 4 + 8] = log2_sum[1];
  }
  float delta[2];
  constexpr int kAtOnce = kD < 128 ? kD / 32 : 4;
  const int row = delta_of_16<T, kAtOnce>({args.rows.o, args.rows.d_o, p.dv_dim}, sequence, place.b, place.head,
                                          place.tile * kRows + first, delta);
  if (row < 0) return;
  if (args.rows.d_lse) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (lse[h] == kMinusInfinity) continue;
      const int i = place.tile * kRows + first + row + 8 * h;
      delta[h] -= args.rows.d_lse[lse_index(p, sequence, place.b, place.head, i)];
    }
  }
  float* facts = args.row_facts + index * (kRowFacts<Args> * kRows) + first;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float in_units = HasBias<Args> ? lse[h] : lse[h] * kLog2E;
    facts[row + 8 * h] = lse[h] == kMinusInfinity ? -kMinusInfinity : in_units;  // +inf makes P 0
    facts[kRows + row + 8 * h] = delta[h] * keep_rate_of(args);
  }
}

// Prepares all rows with all warps of the grid; no block returns before all rows are done. A chunk is several strips of
// 16 rows. In a cooperative launch warps divide the chunks evenly. Otherwise they take chunks from a work counter and
// count the completed ones. A warp that holds a chunk never waits, so this terminates however few blocks are resident.
template <class T, int kD, int kRows, class Args>
__device__ __forceinline__ void prepare_rows(const Args& args) {
  const RowFactsArgs& rows = args.rows;
  const bool together = !rows.work_counter;
  // Requests a chunk; lane 0 gets its index. Each warp requests chunks until an index is past the last chunk.
  const auto ask = [&] {
    return lane_index() == 0 ? fetch_work_index_async(rows.work_counter, rows.chunks | 1u << 31) : 0u;
  };
  const unsigned warps = gridDim.x * (kBackwardThreads / 32);
  unsigned done = 0;
  for (unsigned chunk = together ? blockIdx.x * (kBackwardThreads / 32) + warp_index() : same_for_warp(ask());
       chunk < rows.chunks;) {
    const unsigned next = together ? chunk + warps : ask();  // requested while this chunk is processed
    const std::int64_t first = std::int64_t{chunk} * rows.strips_of_chunk;
    const std::int64_t end = min(first + rows.strips_of_chunk, rows.strips);
    for (std::int64_t strip = first; strip < end; ++strip) prepare_strip<T, kD, kRows>(args, strip);
    ++done;
    chunk = same_for_warp(next);
  }
  if (together) return cooperative_groups::this_grid().sync();
  warp_sync();
  if (lane_index() == 0) count_up(rows.work_counter + 1, done);
  block_sync();  // thread 0 must not poll while warps of its block still count: without this barrier calls hang
  if (threadIdx.x == 0) await_count(rows.work_counter + 1, rows.chunks);
  block_sync();
}

// Prefetches a row tile's dQ sum to the L2 cache, one cache line per thread and iteration. Other blocks may still add
// to the sum.
template <int kD, int kRows>
__device__ __forceinline__ void fetch_dq_sum(const RowTilesArgs& args, const RowTile& place, int thread) {
  constexpr int kLine = 128 / sizeof(float), kStep = DqFragment<kD, kRows>::kThreads * kLine;
  const Sequence sequence(args.params, place.b);
  if (place.tile * kRows >= sequence.seqlen_q) return;
  const float* const sum = dq_sum_of<kD, kRows>(args, sequence, place);
#pragma unroll
  for (int i = 0; i < kRows * kD; i += kStep) {
    if (i + kStep > kRows * kD && i + thread * kLine >= kRows * kD) break;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(sum + i + thread * kLine));
  }
}

// round_dq() of a transposed sum. A warp rounds 8 rows at a time; a lane has 16 columns of 2 rows.
template <class T, int kD, int kRows>
__device__ __forceinline__ void round_transposed_dq(const RoundDqArgs& args, const RowTile& place, float scale,
                                                    int thread) {
  using Dq = DqFragment<kD, kRows>;
  const Sequence sequence(args.params, place.b);
  const int rows_written = sequence.rows_written(args.params) - place.tile * kRows;
  if (rows_written <= 0) return;
  const int first_row = place.tile * kRows, lane = lane_index(), strip = lane / 4, column = strip * 16;
  const float* const sum = dq_sum_of<kD, kRows>(args, sequence, place);
  auto* const to = static_cast<std::uint16_t*>(args.dq.data) +
                   head_offset(args.dq, place.b, place.head, sequence.q_begin + first_row) + column;
#pragma unroll
  for (int group = thread / 32; group < kRows / 8; group += Dq::kThreads / 32) {
    const int row = group * 8 + lane % 4 * 2;  // and row + 1
    // Column c and column c + 8 of both rows: x and y are column c.
    float4 four[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int owner = strip % 4 * 32 + c * 4 + lane % 4;  // the thread that accumulated these four
      four[c] = make_float4(0, 0, 0, 0);
      if (first_row + row < sequence.seqlen_q) {
        four[c] = __ldcg(reinterpret_cast<const float4*>(sum + Dq::offset(strip / 4, group, owner)));
      }
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (row + e >= rows_written) continue;
      const bool valid = first_row + row + e < sequence.seqlen_q;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (column + 8 * h >= args.params.d) continue;
        const auto element = [&](const float4& v) { return h == 0 ? (e == 0 ? v.x : v.y) : (e == 0 ? v.z : v.w); };
        std::uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[i] = valid ? pack<T>(element(four[2 * i]) * scale, element(four[2 * i + 1]) * scale) : 0;
        }
        *reinterpret_cast<uint4*>(to + (row + e) * args.dq.row + 8 * h) = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }
}

// Rounds and stores dQ of a row tile, multiplied by `scale`, by DqFragment::kThreads threads. Loads bypass L1:
// reductions update the sums in L2. Rows past the sequence's length get zeros.
template <class T, int kD, int kRows>
__device__ __forceinline__ void round_dq(const RoundDqArgs& args, const RowTile& place, float scale, int thread) {
  using Dq = DqFragment<kD, kRows>;
  const SequenceParams& p = args.params;
  const Sequence sequence(p, place.b);
  const int first_row = place.tile * kRows;
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;
  const int consumer = thread / 128;
  const int row = Dq::first_row(consumer) + thread % 128 / 32 * 16 + lane_index() / 4;  // and row + 8
  const int column = Dq::first_column(consumer);
  const float* sum = dq_sum_of<kD, kRows>(args, sequence, place);
  const bool valid[2] = {first_row + row < sequence.seqlen_q, first_row + row + 8 < sequence.seqlen_q};
  float dq[Dq::kCount];
#pragma unroll
  for (int i = 0; i < Dq::kCount / 4; ++i) {
    float4 four = make_float4(0, 0, 0, 0);
    if (valid[0]) four = __ldcg(reinterpret_cast<const float4*>(sum + Dq::offset(consumer, i, thread % 128)));
    dq[4 * i] = four.x * scale;
    dq[4 * i + 1] = four.y * scale;
    dq[4 * i + 2] = valid[1] ? four.z * scale : 0;
    dq[4 * i + 3] = valid[1] ? four.w * scale : 0;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(args.dq.data) +
                      head_offset(args.dq, place.b, place.head, sequence.q_begin + first_row) + column;
  store_two_rows<T, Dq::kColumns>(dq, to, args.dq.row, p.d - column, row, rows_written);
}

}  // namespace strobe::cuda::sm90
