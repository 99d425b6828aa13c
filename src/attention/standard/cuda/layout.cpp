// Implements layout.h: the workspace layout of the CUDA kernels `standard` and `frugal`, and the heads per pass.
#include "attention/standard/cuda/layout.h"

#include <algorithm>

#include "attention/standard/cuda/matmul.h"

namespace strobe::standard {
namespace {

constexpr std::int64_t kFrugalScores = std::int64_t{32} << 20;  // bytes of scores per pass, unless one KV head has more

std::int64_t score_bytes_of_group(const Problem& problem) {
  return problem.group * problem.max_seqlen_q * padded(problem.max_seqlen_k) *
         static_cast<std::int64_t>(size_of(problem.dtype));
}

// Returns true if the rows of all query heads of a group have one common stride, so that one GEMM can sum over the
// group.
bool group_is_stacked(const Problem& problem, const ConstView& view) {
  return problem.group == 1 || view.stride[1] == problem.max_seqlen_q * view.stride[2];
}

}  // namespace

bool needs_copy(const Problem& problem, const ConstView& view, Side side) {
  const bool has_lengths = problem.packed || problem.lengths_q || problem.lengths_k || problem.first_keys;
  if (has_lengths || !is_gemm_operand(problem, view)) return true;
  return side == Side::queries && problem.pass == Pass::backward && !group_is_stacked(problem, view);
}

HeadRange heads_of_pass(const Problem& problem, Variant variant) {
  const HeadRange all{0, problem.batch, 0, problem.heads_kv};
  const std::int64_t bytes = score_bytes_of_group(problem);
  const bool sums_heads = problem.pass == Pass::backward && problem.wants_dbias;
  if (variant == Variant::standard || sums_heads || bytes == 0 || problem.batch * problem.heads_kv == 0) return all;
  const std::int64_t heads = std::clamp<std::int64_t>(kFrugalScores / bytes, 1, problem.batch * problem.heads_kv);
  if (heads < problem.heads_kv) return {0, 1, 0, heads};
  return {0, heads / problem.heads_kv, 0, problem.heads_kv};
}

// A workspace query does not know the strides of outputs and dO, so the layout always has room for copies of one output
// and of dO.
WorkspaceLayout layout_of(const Problem& problem, Variant variant) {
  const bool in_place = variant == Variant::frugal;
  const bool backward = problem.pass == Pass::backward;
  const HeadRange range = heads_of_pass(problem, variant);
  const std::size_t element = size_of(problem.dtype);
  const auto groups = static_cast<std::size_t>(range.batches * range.heads);
  const std::size_t rows_q = groups * static_cast<std::size_t>(problem.group * problem.max_seqlen_q);
  const std::size_t rows_k = groups * static_cast<std::size_t>(problem.max_seqlen_k);
  const auto d = static_cast<std::size_t>(padded(problem.d));
  const auto dv = static_cast<std::size_t>(padded(problem.dv));
  const std::size_t scores = rows_q * static_cast<std::size_t>(padded(problem.max_seqlen_k)) * element;
  const std::size_t out = element * (backward ? std::max({rows_q * d, rows_k * d, rows_k * dv}) : rows_q * dv);
  const auto all_rows = static_cast<std::size_t>(problem.batch * problem.heads_q * problem.max_seqlen_q);
  std::size_t end = 0;
  const auto take = [&end](bool wanted, std::size_t bytes) {
    const std::size_t begin = end;
    if (wanted) end += (bytes + 255) / 256 * 256;
    return begin;
  };
  WorkspaceLayout layout{};
  layout.cublas = take(true, Cublas::workspace_bytes(problem.gpu.compute_capability));
  if (in_place) {
    layout.scores = layout.probabilities = take(true, scores);
    layout.d_probabilities = layout.d_scores = take(backward, scores);
    layout.out = take(true, out);
  } else {
    layout.scores = take(true, std::max(scores, out));
    layout.out = layout.scores;  // no operation reads the scores after the softmax
    layout.probabilities = take(true, scores);
    layout.d_probabilities = take(backward, scores);
    layout.d_scores = take(backward, scores);
  }
  layout.tanh = take(backward && problem.softcap != 0, scores);
  layout.sinks = take(backward && problem.sinks, all_rows * sizeof(float));
  layout.q = take(needs_copy(problem, problem.q, Side::queries), rows_q * d * element);
  layout.k = take(needs_copy(problem, problem.k, Side::keys), rows_k * d * element);
  layout.v = take(needs_copy(problem, problem.v, Side::keys), rows_k * dv * element);
  layout.d_o = take(backward, rows_q * dv * element);
  layout.total = end;
  return layout;
}

}  // namespace strobe::standard
