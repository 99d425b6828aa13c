// Arguments and launches of the sm80 backward, which flash2 runs on every GPU. Order: row kernels (sm80/rows.cu), key
// tiles, rounding of dQ, then the gradients of bias and sinks.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm80/backward/config.h"
#include "strobe/dtype.h"

namespace strobe {
struct Problem;
}

namespace strobe::cuda::sm80 {

// Sizes of the dimensions of dbias.
struct DbiasShape {
  std::int32_t batch = 0, heads = 0, rows = 0, keys = 0;
  constexpr std::int64_t elements() const { return std::int64_t{batch} * heads * rows * keys; }
};

// Method for dbias:
// stored: every element belongs to one (b, h, i), and its block stores it.
// added: several share an element, and their blocks add to it in any order.
// summed: a separate kernel sums it, always in the same order.
enum class DbiasBy : std::uint8_t { nothing, stored, added, summed };

// RowWeight of a row, computed once, and delta; fp32.
struct RowFacts {
  float base, rest, power, delta;
};

// Decided by the plan.
struct BackwardTiles {
  std::int32_t row_tiles = 0, key_tiles = 0;  // for the longest sequence
  std::int32_t stages = 1;
  bool deterministic = true;
  bool has_row_sums = false;  // rows may need sums that O and LSE do not give
  bool exact_delta = false;   // with dropout or few keys: computes delta from the probabilities instead of the rounded
                              // O, in rows where the difference shows (sums.cuh)
  DbiasBy dbias_by = DbiasBy::nothing;
  std::int64_t tiles_per_head = 0;  // packed batch: row tiles per head, plus one per sequence
  DbiasShape dbias;                 // if it is wanted
  std::int32_t dbias_parts = 1;     // parts that separate blocks sum; added in a fixed order
};

struct BackwardArgs : BackwardTiles {
  BackwardParams params;
  float* delta = nullptr;           // [rows as in LSE]: sum of dO * O
  float* log2_sums = nullptr;       // [rows]: log2 of the sum of the probabilities that LSE gives; null: 0
  RowFacts* row_facts = nullptr;    // [rows], fp32
  float* dq_sum = nullptr;          // [row tiles][padded head dimension * rows of a tile], in register order
  std::uint32_t* turns = nullptr;   // [row tiles]: number of blocks that have added to the tile; deterministic
  std::uint32_t* ticket = nullptr;  // work counter: next block to start; deterministic
  // Nonzero if rows that share a scale differ too much in magnitude. Then the kernels with scales return at once;
  // otherwise those without do. Null: no such choice.
  std::uint32_t* spread = nullptr;
  float* dbias_sums = nullptr;  // [dbias_parts][elements of dbias], if there are several parts
};

struct BackwardLaunch {
  BackwardConfig config;
  DType dtype = DType::bf16;
  void* stream = nullptr;
  BackwardArgs args;
};

// Sizes of the workspace buffers in bytes, each a multiple of 16.
struct BackwardWorkspace {
  std::size_t delta = 0, log2_sums = 0, row_facts = 0, dq_sum = 0, turns = 0, spread = 0, dbias_sums = 0;
  std::size_t total() const { return delta + log2_sums + row_facts + dq_sum + turns + spread + dbias_sums; }
};

BackwardWorkspace backward_workspace(const BackwardConfig& config, const BackwardTiles& tiles, const Problem& problem);

// Number of row tiles of all query heads.
std::int64_t all_row_tiles(const BackwardTiles& tiles, const SequenceParams& params);

// Sets the tile counts for the configuration's tiles; keeps the flags.
void cut_into_tiles(const BackwardConfig& config, const Problem& problem, BackwardTiles& tiles);

void launch_spread(const BackwardLaunch& launch);  // for kernels with scales
void launch_delta(const BackwardLaunch& launch);   // 16 bits only; fp32 uses row sums
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
