// Workspace layout of the CPU kernels `standard` and `frugal`. Used by standard.cpp and the files of this folder.
#pragma once

#include <cstdint>

#include "attention/problem.h"
#include "attention/standard/variant.h"

namespace strobe::standard::cpu {

// Offsets in bytes from the start of the workspace, multiples of 64. Those under "Per slot" are from the start of the
// slot. Score matrices are [heads][max_seqlen_q][max_seqlen_k] of type `stored`. Matrices with equal offsets share
// memory.
struct WorkspaceLayout {
  DType stored;
  std::int64_t heads;  // query heads whose score matrices are stored at once: all for `standard`, 1 for `frugal`
  std::int64_t slots;  // heads processed at the same time
  std::int64_t scores, probabilities, tanh, dropped, d_probabilities, d_scores;
  std::int64_t sinks;  // probabilities of the sinks, fp32 [heads][max_seqlen_q]
  // Per slot, fp32: operands of one head, its output, and the sums of dK and dV.
  std::int64_t rows_operand, keys_operand, out, dk, dv, slot_bytes;
  // Per-thread scratch: an fp32 copy of a block of rows or columns of a score matrix, or of two rows. Empty if `stored`
  // is fp32.
  std::int64_t strips, strip_bytes;
  std::int64_t total;
};

WorkspaceLayout layout_of(const Problem& problem, Variant variant);

// Returns true if each head (or group) is computed by one thread, because there are at least 4 per thread. Otherwise
// heads are computed one after another, each by all threads.
inline bool one_head_per_thread(const Problem& problem, std::int64_t count) {
  return problem.threads > 1 && count >= 4 * std::int64_t{problem.threads};
}

}  // namespace strobe::standard::cpu
