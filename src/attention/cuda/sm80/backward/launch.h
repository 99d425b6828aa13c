// Arguments and launches of the sm80 backward, which is flash2's backward on every GPU. Order: row kernels
// (sm80/rows.cu), key tiles, rounding of dQ, then the gradients of bias and sinks.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm80/backward/config.h"
#include "strobe/dtype.h"

namespace strobe {
struct Problem;
}

namespace strobe::cuda::sm80 {

// Shape of dbias.
struct DbiasShape {
  std::int32_t batch = 0, heads = 0, rows = 0, keys = 0;
  constexpr std::int64_t elements() const { return std::int64_t{batch} * heads * rows * keys; }
};

// How dbias is computed:
// stored: each element belongs to one (b, h, i), so one block stores it.
// added: several blocks add to an element, in any order.
// summed: a separate kernel sums each element in a fixed order.
enum class DbiasBy : std::uint8_t { nothing, stored, added, summed };

// The RowWeight (device/softmax.cuh) of a row and its delta, computed once per row; fp32 only.
struct RowFacts {
  float base, rest, power, delta;
};

// Tile counts and flags that the plan decides.
struct BackwardTiles {
  std::int32_t row_tiles = 0, key_tiles = 0;  // for the longest sequence
  std::int32_t stages = 1;
  bool deterministic = true;
  bool has_row_sums = false;  // row_sums_kernel runs, because O and LSE may not be exact enough
  bool exact_delta = false;   // with dropout or few keys: computes delta from the probabilities instead of the rounded
                              // O, in rows where the difference shows (sums.cuh)
  DbiasBy dbias_by = DbiasBy::nothing;
  std::int64_t tiles_per_head = 0;  // packed batch: row tiles per head, plus one per sequence
  DbiasShape dbias;                 // all 0 unless the caller wants dbias
  std::int32_t dbias_parts = 1;     // DbiasBy::summed: blocks that share the work on a tile of dbias
};

struct BackwardArgs : BackwardTiles {
  BackwardParams params;
  float* delta = nullptr;                 // [rows as in LSE]: sum of dO * O
  float* log2_sums = nullptr;             // [rows]: log2 of the row's sum of exp(score - LSE), close to 0; null: 0
  RowFacts* row_facts = nullptr;          // [rows], fp32
  float* dq_sum = nullptr;                // [row tiles][rows of a tile * padded D], in accumulator order
  std::uint32_t* dq_semaphore = nullptr;  // `deterministic`: semaphores [row tiles]
  std::uint32_t* work_counter = nullptr;  // `deterministic`: work counter of key tiles
  // Nonzero if the kernels with scales are not exact enough (sm80/rows.cu). These kernels then return at once;
  // otherwise the kernels without scales do. Null: only one of the two kinds is launched.
  std::uint32_t* spread = nullptr;
  float* dbias_sums = nullptr;  // [dbias_parts][elements of dbias] if there are several parts
};

struct BackwardLaunch {
  BackwardConfig config;
  DType dtype = DType::bf16;
  void* stream = nullptr;
  BackwardArgs args;
};

// Sizes of the workspace buffers in bytes, each a multiple of 16.
struct BackwardWorkspace {
  std::size_t delta = 0, log2_sums = 0, row_facts = 0, dq_sum = 0, dq_semaphore = 0, spread = 0, dbias_sums = 0;
  std::size_t total() const { return delta + log2_sums + row_facts + dq_sum + dq_semaphore + spread + dbias_sums; }
};

BackwardWorkspace backward_workspace(const BackwardConfig& config, const BackwardTiles& tiles, const Problem& problem);

// Number of row tiles of all query heads.
std::int64_t all_row_tiles(const BackwardTiles& tiles, const SequenceParams& params);

// Sets stages and tile counts from the configuration; keeps the flags.
void cut_into_tiles(const BackwardConfig& config, const Problem& problem, BackwardTiles& tiles);

void launch_spread(const BackwardLaunch& launch);  // only for kernels with scales
void launch_delta(const BackwardLaunch& launch);   // 16-bit types only; fp32 uses launch_row_sums()
void launch_dsinks(const BackwardLaunch& launch);
void launch_zero_dbias(const BackwardLaunch& launch);
void launch_add_dbias(const BackwardLaunch& launch);

// Launches the kernels of one padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct BackwardKernels {
  static void launch_tiles(const BackwardLaunch& launch);
  static void launch_row_sums(const BackwardLaunch& launch);
  static void launch_dbias(const BackwardLaunch& launch);
};

}  // namespace strobe::cuda::sm80
