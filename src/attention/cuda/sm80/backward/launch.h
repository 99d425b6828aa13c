// Arguments and launches of the sm80 backward, which flash2 runs on every card: rows first (sm80/rows.cu), then tiles
// of keys, then dQ rounded, and the gradients of bias and sinks.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm80/backward/config.h"
#include "strobe/dtype.h"

namespace strobe {
struct Problem;
}

namespace strobe::cuda::sm80 {

// What of dbias is summed up: sizes of its dimensions.
struct DbiasShape {
  std::int32_t batch = 0, heads = 0, rows = 0, keys = 0;
  constexpr std::int64_t elements() const { return std::int64_t{batch} * heads * rows * keys; }
};

// How dbias comes about. stored: every element has one (b, h, i), and the block that has it writes it. added: several
// share an element, and their blocks add to it in any order. summed: by a kernel of its own, always in the same order.
enum class DbiasBy : std::uint8_t { nothing, stored, added, summed };

// Of a row in fp32: RowWeight, computed once, and delta.
struct RowFacts {
  float base, rest, power, delta;
};

// Decided by the plan.
struct BackwardTiles {
  std::int32_t row_tiles = 0, key_tiles = 0;  // of the longest sequence
  std::int32_t stages = 1;
  bool deterministic = true;
  bool has_row_sums = false;  // rows may need sums that O and LSE do not give
  bool exact_delta = false;  // dropout or few keys: delta from the weights, not from O, which is rounded, in rows where
                             // that shows (sums.cuh)
  DbiasBy dbias_by = DbiasBy::nothing;
  std::int64_t tiles_per_head = 0;  // packed batch: tiles of rows of all sequences, one more each for a part
  DbiasShape dbias;                 // if it is wanted
  std::int32_t dbias_parts = 1;     // that blocks of their own sum up; added in their order
};

struct BackwardArgs : BackwardTiles {
  BackwardParams params;
  float* delta = nullptr;          // [rows as LSE counts them]: sum of dO * O
  float* log2_sums = nullptr;      // [rows]: logarithm of the sum of the weights that LSE gives; null: 0
  RowFacts* row_facts = nullptr;   // [rows], fp32
  float* dq_sum = nullptr;         // [tiles of rows][padded head dimension * rows of a tile], in the order of registers
  std::uint32_t* turns = nullptr;  // [tiles of rows]: how many blocks have added to the tile; deterministic
  std::uint32_t* ticket = nullptr;  // the next block to start; deterministic
  // Not 0 if rows that share a scale differ too much in size: kernels with scales then leave all to those without, else
  // those do nothing. Null: no such choice.
  std::uint32_t* spread = nullptr;
  float* dbias_sums = nullptr;  // [dbias_parts][elements of dbias], if there are several
};

struct BackwardLaunch {
  BackwardConfig config;
  DType dtype = DType::bf16;
  void* stream = nullptr;
  BackwardArgs args;
};

// Bytes of the parts of a workspace, each a multiple of 16.
struct BackwardWorkspace {
  std::size_t delta = 0, log2_sums = 0, row_facts = 0, dq_sum = 0, turns = 0, spread = 0, dbias_sums = 0;
  std::size_t total() const { return delta + log2_sums + row_facts + dq_sum + turns + spread + dbias_sums; }
};

BackwardWorkspace backward_workspace(const BackwardConfig& config, const BackwardTiles& tiles, const Problem& problem);

// All tiles of rows of all query heads.
std::int64_t all_row_tiles(const BackwardTiles& tiles, const SequenceParams& params);

// Cuts the problem into the configuration's tiles; keeps the flags.
void cut_into_tiles(const BackwardConfig& config, const Problem& problem, BackwardTiles& tiles);

void launch_spread(const BackwardLaunch& launch);  // for kernels with scales
void launch_delta(const BackwardLaunch& launch);   // 16 bits; fp32 has row sums
void launch_dsinks(const BackwardLaunch& launch);
void launch_zero_dbias(const BackwardLaunch& launch);
void launch_add_dbias(const BackwardLaunch& launch);

// One padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct BackwardKernels {
  static void launch_tiles(const BackwardLaunch& launch);
  static void launch_row_sums(const BackwardLaunch& launch);
  static void launch_dbias(const BackwardLaunch& launch);
};

}  // namespace strobe::cuda::sm80
