// What the Hopper backward does row by row: before the tiles, LSE and delta as they take them, in a kernel of its own;
// after them, dQ rounded, by the blocks of the main kernel.
#pragma once

#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/dq.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/device/store.cuh"

namespace strobe::cuda::sm90 {

// A block has a tile of rows of one query head, a warp 16 rows. Sums and counters begin at zero: a memset would cost a
// launch more.
template <class T, int kD, int kRows = backward_rows(kD)>
__global__ void __launch_bounds__(2 * kRows) row_facts_kernel(const __grid_constant__ RowFactsArgs args) {
  const Batch& p = args.params;
  const int thread = static_cast<int>(threadIdx.x);
  if (blockIdx.x == 0 && thread == 0) *args.ticket = 0;
  // There is a block for each of them.
  if (blockIdx.x < static_cast<unsigned>(p.batch * p.heads_kv) && thread == 0) args.keys_done[blockIdx.x] = 0;
  const RowTile place(args, blockIdx.x);
  const Sequence sequence(p, place.b);
  if (place.tile * kRows >= sequence.q_length) return;
  const std::int64_t index = row_tile_index(args, sequence, place.b, place.head, place.tile, kRows);
  if (args.turns && thread == 0) args.turns[index] = 0;
  auto* const sum = reinterpret_cast<float4*>(args.dq_sum + index * (kRows * kD));
#pragma unroll
  for (int i = 0; i < kD / 8; ++i) sum[i * 2 * kRows + thread] = make_float4(0, 0, 0, 0);
  const int first = warp_index() * 16;
  float delta[2];
  const int row =
      delta_of_16<T>({args.o, args.d_o, p.dv_dim}, sequence, place.b, place.head, place.tile * kRows + first, delta);
  if (row < 0) return;
  float* facts = args.row_facts + index * (2 * kRows) + first;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = place.tile * kRows + first + row + 8 * h;
    const float lse = i < sequence.q_length ? args.lse[lse_index(p, sequence, place.b, place.head, i)] : kMinusInfinity;
    facts[row + 8 * h] = lse == kMinusInfinity ? -kMinusInfinity : lse * kLog2E;  // weights become 0
    facts[kRows + row + 8 * h] = delta[h];
  }
}

// A tile's sum on its way to the L2 cache, a line a thread at a time; more may be added to it meanwhile.
template <int kD>
__device__ __forceinline__ void fetch_dq_sum(const RowTilesArgs& args, const RowTile& place, int thread) {
  using Dq = DqPiece<kD>;
  constexpr int kLine = 128 / sizeof(float);
  const Sequence sequence(args.params, place.b);
  if (place.tile * Dq::kRows >= sequence.q_length) return;
  const float* const sum = dq_sum_of<kD>(args, sequence, place);
#pragma unroll
  for (int i = 0; i < Dq::kRows * kD; i += Dq::kThreads * kLine) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(sum + i + thread * kLine));
  }
}

// By DqPiece<kD>::kThreads threads. Sums were made in the L2 cache, so that is where they are read from. Rows past the
// length get zeros.
template <class T, int kD>
__device__ __forceinline__ void round_dq(const RoundDqArgs& args, const RowTile& place, int thread) {
  using Dq = DqPiece<kD>;
  constexpr int kRows = Dq::kRows;
  const Batch& p = args.params;
  const Sequence sequence(p, place.b);
  const int first_row = place.tile * kRows;
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;
  const int consumer = thread / 128;
  const int row = Dq::first_row(consumer) + thread % 128 / 32 * 16 + lane_index() / 4;  // and 8 below
  const int column = Dq::first_column(consumer);
  const float* sum = dq_sum_of<kD>(args, sequence, place);
  const bool valid[2] = {first_row + row < sequence.q_length, first_row + row + 8 < sequence.q_length};
  float dq[Dq::kCount];
#pragma unroll
  for (int i = 0; i < Dq::kCount / 4; ++i) {
    float4 four = make_float4(0, 0, 0, 0);
    if (valid[0]) four = __ldcg(reinterpret_cast<const float4*>(sum + Dq::offset(i, thread)));
    dq[4 * i] = four.x * p.scale;
    dq[4 * i + 1] = four.y * p.scale;
    dq[4 * i + 2] = valid[1] ? four.z * p.scale : 0;
    dq[4 * i + 3] = valid[1] ? four.w * p.scale : 0;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(args.dq.data) +
                      head_offset(args.dq, place.b, place.head, sequence.q_begin + first_row) + column;
  store_two_rows<T, Dq::kColumns>(dq, to, args.dq.row, p.d - column, row, rows_written);
}

}  // namespace strobe::cuda::sm90
