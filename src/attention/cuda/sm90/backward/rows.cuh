// What the Hopper backward does row by row: before the tiles, LSE and delta as they take them; after them, dQ rounded.
// A block a tile of rows of one query head.
#pragma once

#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/dq.cuh"
#include "attention/cuda/sm90/backward/memory.cuh"
#include "attention/cuda/sm90/device/store.cuh"

namespace strobe::cuda::sm90 {

struct RowTile {
  int tile, head, b;

  __device__ __forceinline__ explicit RowTile(const BackwardArgs& args) {
    const unsigned tiles = static_cast<unsigned>(args.row_tiles), heads = static_cast<unsigned>(args.params.heads_q);
    tile = static_cast<int>(blockIdx.x % tiles);
    head = static_cast<int>(blockIdx.x / tiles % heads);
    b = static_cast<int>(blockIdx.x / tiles / heads);
  }
};

// A warp takes 16 rows. Sums and counters begin at zero: a memset would cost a launch more.
template <class T, int kD>
__global__ void __launch_bounds__(2 * backward_shape(kD).rows)
    row_facts_kernel(const __grid_constant__ BackwardArgs args) {
  constexpr int kRows = BackwardMemory<kD>::kRows;
  const Params& p = args.params;
  const int thread = static_cast<int>(threadIdx.x);
  if (blockIdx.x == 0 && thread == 0) *args.ticket = 0;
  const RowTile place(args);
  const Sequence sequence(p, place.b);
  if (place.tile * kRows >= sequence.q_length) return;
  const std::int64_t index = row_tile_index(args, sequence, place.b, place.head, place.tile, kRows);
  if (args.deterministic && thread == 0) args.turns[index] = 0;
  auto* const sum = reinterpret_cast<float4*>(args.dq_sum + index * (kRows * kD));
  for (int i = thread; i < kRows * kD / 4; i += 2 * kRows) sum[i] = make_float4(0, 0, 0, 0);
  const int first = warp_index() * 16;
  float delta[2];
  const int row = delta_of_16<T>(p, sequence, place.b, place.head, place.tile * kRows + first, delta);
  if (row < 0) return;
  float* facts = args.row_facts + index * (2 * kRows) + first;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = place.tile * kRows + first + row + 8 * h;
    const float lse = i < sequence.q_length ? p.lse[lse_index(p, sequence, place.b, place.head, i)] : kMinusInfinity;
    facts[row + 8 * h] = lse == kMinusInfinity ? -kMinusInfinity : lse * kLog2E;  // weights become 0
    facts[kRows + row + 8 * h] = delta[h];
  }
}

template <class T, int kD>
__global__ void __launch_bounds__(DqPiece<kD>::kThreads) round_dq_kernel(const __grid_constant__ BackwardArgs args) {
  using Dq = DqPiece<kD>;
  constexpr int kRows = Dq::kRows;
  const Params& p = args.params;
  const RowTile place(args);
  const Sequence sequence(p, place.b);
  const int first_row = place.tile * kRows;
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;
  const int thread = static_cast<int>(threadIdx.x), consumer = thread / 128;
  const int row = Dq::first_row(consumer) + thread % 128 / 32 * 16 + lane_index() / 4;  // and 8 below
  const int column = Dq::first_column(consumer);
  const float* sum =
      args.dq_sum + row_tile_index(args, sequence, place.b, place.head, place.tile, kRows) * (kRows * kD);
  const bool valid[2] = {first_row + row < sequence.q_length, first_row + row + 8 < sequence.q_length};
  float dq[Dq::kCount];
#pragma unroll
  for (int i = 0; i < Dq::kCount / 4; ++i) {
    float4 four = make_float4(0, 0, 0, 0);
    if (valid[0]) four = *reinterpret_cast<const float4*>(sum + Dq::offset(i, thread));
    dq[4 * i] = four.x * p.scale;
    dq[4 * i + 1] = four.y * p.scale;
    dq[4 * i + 2] = valid[1] ? four.z * p.scale : 0;
    dq[4 * i + 3] = valid[1] ? four.w * p.scale : 0;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(p.dq.data) +
                      head_offset(p.dq, place.b, place.head, sequence.q_begin + first_row) + column;
  store_two_rows<T, Dq::kColumns>(dq, to, p.dq.row, p.d - column, row, rows_written);
}

}  // namespace strobe::cuda::sm90
