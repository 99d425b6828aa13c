// Workspace of the CPU kernels `standard` and `frugal`. Used by the other files of this folder.
#pragma once

#include <cstdint>

#include "attention/problem.h"
#include "attention/standard/variant.h"

namespace strobe::standard::cpu {

// Offsets in bytes, each a multiple of 64. Score matrices are [heads][max_q][max_k] of type `stored`; two of them with
// the same offset share memory.
struct Layout {
  DType stored;
  std::int64_t heads;  // query heads in a pass
  std::int64_t slots;  // heads processed at the same time
  std::int64_t scores, probabilities, tanh, dropped, d_probabilities, d_scores;
  std::int64_t sinks;  // fp32 [heads][max_q]
  // Per slot, fp32: operands of one head, its output, and the sums of dK and dV.
  std::int64_t rows_operand, keys_operand, out, dk, dv, slot_bytes;
  // One per thread, fp32: a block of rows or columns of a score matrix, or two rows.
  std::int64_t strips, strip_bytes;
  std::int64_t total;
};

Layout layout_of(const Problem& problem, Variant variant);

// True if `count` heads are enough to give each thread whole heads. Otherwise threads share each head.
inline bool one_head_per_thread(const Problem& problem, std::int64_t count) {
  return problem.threads > 1 && count >= 4 * std::int64_t{problem.threads};
}

}  // namespace strobe::standard::cpu
