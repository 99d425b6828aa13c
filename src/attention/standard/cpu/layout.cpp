// Implements layout.h: the workspace layout of the CPU kernels `standard` and `frugal`.
#include "attention/standard/cpu/layout.h"

#include <algorithm>

#include "core/divide.h"
#include "device/host/blas.h"

namespace strobe::standard::cpu {
namespace {

// Allocates consecutive offsets.
class Offsets {
 public:
  std::int64_t take(bool wanted, std::int64_t bytes) {
    const std::int64_t begin = end_;
    if (wanted) end_ += round_up(bytes, 64);
    return begin;
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

void take_score_matrices(WorkspaceLayout& layout, Offsets& offsets, const Problem& problem, Variant variant) {
  const bool in_place = variant == Variant::frugal;
  const bool backward = problem.pass == Pass::backward;
  const bool dropout = backward && problem.dropout.p != 0;
  const std::int64_t element = static_cast<std::int64_t>(size_of(layout.stored));
  const std::int64_t bytes = layout.heads * problem.max_seqlen_q * problem.max_seqlen_k * element;
  layout.scores = offsets.take(true, bytes);
  layout.probabilities = in_place ? layout.scores : offsets.take(true, bytes);
  layout.tanh = offsets.take(backward && problem.softcap != 0, bytes);
  // `dropped` may use the memory of the scores, which are not read after the softmax.
  layout.dropped = !dropout ? layout.probabilities : in_place ? offsets.take(true, bytes) : layout.scores;
  layout.d_probabilities = offsets.take(backward, bytes);
  layout.d_scores = in_place ? layout.d_probabilities : offsets.take(backward, bytes);
}

// Returns the size of a strip in floats: a block of rows or columns of a score matrix. The block also has room for the
// two rows that row operations need. The size is 0 if the matrices are fp32, which needs no copy.
std::int64_t strip_floats(const Problem& problem, DType stored) {
  const std::int64_t rows = problem.max_seqlen_q;
  const std::int64_t keys = problem.max_seqlen_k;
  if (stored == DType::fp32) return 0;
  return std::max(blas::block_rows(rows) * keys, blas::block_rows(keys) * rows);
}

}  // namespace

WorkspaceLayout layout_of(const Problem& problem, Variant variant) {
  const bool backward = problem.pass == Pass::backward;
  const std::int64_t rows = problem.max_seqlen_q;
  const std::int64_t keys = problem.max_seqlen_k;
  const std::int64_t wider = std::max(problem.d, problem.dv);
  WorkspaceLayout layout{};
  layout.stored = variant == Variant::frugal ? DType::fp32 : problem.dtype;
  layout.heads = variant == Variant::frugal ? 1 : problem.batch * problem.heads_q;
  layout.slots = one_head_per_thread(problem, layout.heads) ? problem.threads : 1;

  Offsets slot;
  layout.rows_operand = slot.take(true, rows * wider * 4);
  layout.keys_operand = slot.take(true, keys * wider * 4);
  layout.out = slot.take(true, rows * (backward ? problem.d : problem.dv) * 4);
  layout.dk = slot.take(backward, keys * problem.d * 4);
  layout.dv = slot.take(backward, keys * problem.dv * 4);
  layout.slot_bytes = slot.end();

  Offsets offsets;
  offsets.take(true, layout.slots * layout.slot_bytes);
  take_score_matrices(layout, offsets, problem, variant);
  layout.sinks = offsets.take(backward, layout.heads * rows * 4);
  layout.strip_bytes = round_up(strip_floats(problem, layout.stored) * 4, 64);
  layout.strips = offsets.take(true, layout.strip_bytes * std::max(1, problem.threads));
  layout.total = offsets.end();
  return layout;
}

}  // namespace strobe::standard::cpu
