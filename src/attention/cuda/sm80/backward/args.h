// What the backward kernels are launched with, and where the parts of their workspace lie.
#pragma once

#include "attention/cuda/params.h"

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

struct BackwardArgs {
  BackwardParams params;
  std::int32_t row_tiles = 0, key_tiles = 0;  // of the longest sequence
  std::int32_t stages = 1;
  bool deterministic = true;
  bool has_row_sums = false;  // rows may need sums that O and LSE do not give
  bool exact_delta = false;   // dropout or few keys: delta from the weights, not from O, which is rounded, in
                              // rows where that shows (row_sums.cuh)
  DbiasBy dbias_by = DbiasBy::nothing;
  std::int64_t tiles_per_head = 0;  // packed batch: tiles of rows of all sequences, one more each for a part

  float* delta = nullptr;           // [rows as LSE counts them]: sum of dO * O
  float* log2_sums = nullptr;       // [rows]: logarithm of the sum of the weights that LSE gives; null: 0
  RowFacts* row_facts = nullptr;    // [rows], fp32
  float* dq_sum = nullptr;          // [tiles of rows][padded head dimension * rows of a
                                    // tile], in the order of registers
  std::uint32_t* turns = nullptr;   // [tiles of rows]: how many blocks have added to the tile; deterministic
  std::uint32_t* ticket = nullptr;  // the next block to start; deterministic
  std::uint32_t* spread = nullptr;  // not 0 where rows that share a scale differ too much in size: kernels with scales
                                    // then leave all to those without, else those do nothing; null: no such choice

  DbiasShape dbias;              // where it is wanted
  std::int32_t dbias_parts = 1;  // that blocks of their own sum up; added in their order
  float* dbias_sums = nullptr;   // [dbias_parts][elements of dbias], where there are several
};

}  // namespace strobe::cuda::sm80
