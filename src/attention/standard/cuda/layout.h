// Workspace layout of the CUDA kernels `standard` and `frugal`, and the heads of a pass. Used by standard.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/problem.h"
#include "attention/standard/cuda/rows.h"
#include "attention/standard/variant.h"

namespace strobe::standard {

inline std::int64_t padded(std::int64_t columns) { return (columns + 7) / 8 * 8; }  // aligns rows of 16-bit elements

// Returns true if cuBLAS can read or write the tensor in place.
template <class Void>
bool is_gemm_operand(const Problem& problem, const BasicView<Void>& view) {
  const auto& stride = view.stride;
  return !problem.packed && stride[0] >= 0 && stride[1] >= 0 && stride[2] >= view.shape[3] && stride[3] == 1;
}

// Returns true if an input must be copied to contiguous rows first.
bool needs_copy(const Problem& problem, const ConstView& view, Side side);

// KV heads of consecutive sequences, with their query heads. A range of several sequences has all heads of each one.
struct HeadRange {
  std::int64_t first_batch, batches;
  std::int64_t first_head, heads;
};

// Returns the heads of the first pass; later passes have at most as many. The first pass has all heads if dbias, a sum
// over heads, is wanted.
HeadRange heads_of_pass(const Problem& problem, Variant variant);

// Workspace offsets in bytes, each a multiple of 256. Score matrices and copies have room for the heads of one pass.
// Arrays with equal offsets share memory.
struct WorkspaceLayout {
  std::size_t cublas;
  // Score matrices [batches, heads * group, max_seqlen_q, padded max_seqlen_k].
  std::size_t scores, probabilities, d_probabilities, d_scores, tanh;
  std::size_t sinks;              // probabilities of the sinks, fp32 [B, Hq, max_seqlen_q]
  std::size_t q, k, v, d_o, out;  // copies of tensors, with contiguous rows
  std::size_t total;
};

WorkspaceLayout layout_of(const Problem& problem, Variant variant);

}  // namespace strobe::standard
