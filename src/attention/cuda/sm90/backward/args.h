// Arguments of the Hopper backward kernels: only the fields that they read. The launch.cpp of each kernel fills them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

// Row tiles, their fp32 dQ and the counters in global memory; part of the arguments of every Hopper backward kernel.
struct RowTilesArgs {
  SequenceParams params;
  std::int32_t row_tiles = 0;  // row tiles of the longest sequence
  // Packed batch: row tiles per head. There is one extra per sequence, because a sequence may begin within a tile.
  std::int64_t tiles_per_head = 0;
  float* dq_sum = nullptr;  // [row tiles][rows of a tile * padded D], in accumulator order (dq.cuh)
  // [row tiles][row_facts_of(bias)][rows of a tile]: first LSE * log2(e), or +inf for rows without keys and past the
  // end; second delta. With a bias the first is LSE, and the third log2 of the row's sum of exp(score - LSE).
  float* row_facts = nullptr;
  std::uint32_t* work_counter = nullptr;  // index of the next work item
  // [batch * heads_kv]: number of key tiles added to dQ; each block of a cluster counts its own
  std::uint32_t* keys_done = nullptr;
  std::uint32_t* dq_semaphore = nullptr;  // [row tiles]: semaphore of the tile; null unless `deterministic`
};

// Number of floats per row in RowTilesArgs::row_facts.
constexpr int row_facts_of(bool has_bias) { return has_bias ? 3 : 2; }

struct RoundDqArgs : RowTilesArgs {
  Tensor dq;
};

// Key tiles, and the order in which the work counter assigns them to blocks.
struct KeyTilesArgs : RoundDqArgs {
  std::int32_t key_tiles = 0;         // key tiles of the longest sequence
  bool batch_innermost = false;       // sequences are adjacent in the order of heads, because they share a bias
  std::int32_t l2_swizzle_heads = 1;  // KV heads per L2 swizzle group, so that dQ stays in the L2 cache
  std::uint32_t dq_work_items = 0;    // work items that round dQ of one row tile each, after the key tiles; fp32: 0
  Tensor dk, dv;
};

// Preparation of rows, before any key tile. A strip is 16 rows; a chunk is one or more consecutive strips, processed by
// one warp.
struct RowFactsArgs {
  Tensor o, d_o;
  const float *lse = nullptr, *d_lse = nullptr;  // d_lse: gradient of LSE, indexed like LSE; null: 0
  // Work counter of chunks, followed by the number of completed ones; both start at 0. Null: cooperative launch, no
  // counters.
  std::uint32_t* work_counter = nullptr;
  std::uint32_t chunks = 0, strips_of_chunk = 1;
  std::int64_t strips = 0;  // strips of all row tiles
};

struct BackwardArgs : KeyTilesArgs {
  RowFactsArgs rows;
  CUtensorMap q_map, d_o_map, k_map, v_map;  // boxes of 64 columns x the rows, or keys, of a tile
};
static_assert(sizeof(BackwardArgs) <= 1024,
              "BackwardArgs exceeds 1024 bytes: each byte of arguments costs launch time");

// Arguments of the kernels with dropout. The fields are the dropout fields of ScoreParams.
struct DroppingBackwardArgs : BackwardArgs {
  std::uint32_t threshold = 0;
  float scale = 1;
  std::uint32_t philox_keys[10][2] = {};
};

// Arguments of the kernels with a softcap.
struct CapBackwardArgs : BackwardArgs {
  float cap_inner = 0;     // scale / softcap
  float cap_exponent = 0;  // softcap * log2(e)
};

// Arguments of the kernels with a bias.
struct BiasBackwardArgs : BackwardArgs {
  CUtensorMap bias_map;  // boxes of 64 keys x the rows of a tile
  Tensor bias, q, k;     // bias: as in ScoreParams, 16-byte aligned rows of T
  Tensor dbias;          // null: not wanted
  const float* sinks = nullptr;
  bool adds_dbias = false;  // several sequences or heads share an element of dbias
};

// Arguments of the kernels with ALiBi.
struct AlibiBackwardArgs : BackwardArgs {
  const float* alibi_slopes = nullptr;  // [Hq]
};

}  // namespace strobe::cuda::sm90
