// Implements the passes of head.h for the CPU kernels `standard` and `frugal`, with GEMMs by OpenBLAS on inputs
// converted to fp32. The row blocks of a GEMM depend only on the shape, so results depend neither on the variant nor on
// the number of threads.
#include "attention/standard/cpu/head.h"

#include <climits>

#include "device/host/profile_scope.h"

namespace strobe::standard::cpu {
namespace {

using namespace blas;

// Calls body(head) for all heads. If there are enough heads, each one runs on a single thread.
template <class Body>
void for_heads(const Call& call, HeadRange heads, const char* name, ScopeKind kind, Body&& body) {
  const ProfileScope part(name, kind);
  const bool apart = one_head_per_thread(call.problem, heads.count);
  parallel_for(apart ? call.blas.callers() : 1, heads.count,
               [&](int thread, std::int64_t index) { body(Head(call, heads.first, index, thread)); });
}

// Calls body(head) for all heads of the pass, in order within each group. If there are enough groups, each one runs on
// a single thread.
template <class Body>
void for_groups(const Call& call, HeadRange heads, const char* name, Body&& body) {
  const ProfileScope part(name, ScopeKind::matmul);
  const std::int64_t members = std::min(heads.count, call.problem.group);
  const std::int64_t groups = heads.count / members;
  const bool apart = one_head_per_thread(call.problem, groups);
  parallel_for(apart ? call.blas.callers() : 1, groups, [&](int thread, std::int64_t group) {
    for (std::int64_t member = 0; member < members; ++member) {
      body(Head(call, heads.first, group * members + member, thread));
    }
  });
}

// Returns a head's rows of the caller's tensor as an fp32 matrix. It is in place if BLAS can read it, else a copy in
// the head's slot of the workspace.
Matrix load(const Head& head, const ConstView& view, std::int64_t h, std::int64_t begin, std::int64_t count,
            std::int64_t offset) {
  const std::int64_t cols = view.shape[3];
  float* buffer = head.in_slot(offset);
  if (count == 0) return matrix(buffer, 0, cols);
  const Rows rows = head.problem().rows(view, head.b, h, begin);
  if (view.dtype == DType::fp32 && view.stride[3] == 1 && view.stride[2] >= cols && view.stride[2] <= INT_MAX) {
    return {reinterpret_cast<const float*>(rows.data), count, cols, view.stride[2]};
  }
  for_rows(head.problem().threads, count, cols,
           [&](int, std::int64_t i) { widen_row(view.dtype, rows[i], view.stride[3], cols, buffer + i * cols); });
  return matrix(buffer, count, cols);
}

Matrix load_rows(const Head& head, const ConstView& view) {
  return load(head, view, head.hq, head.extent.q_begin, head.rows(), head.call.layout.rows_operand);
}

Matrix load_keys(const Head& head, const ConstView& view) {
  return load(head, view, head.kv_head(), head.extent.k_begin, head.keys(), head.call.layout.keys_operand);
}

// Copies `count` rows of a contiguous fp32 matrix to the caller's tensor, from row `begin` on. In a padded batch it
// sets the remaining rows to zero.
void store(const Head& head, const View& view, std::int64_t h, std::int64_t begin, std::int64_t count,
           const float* from) {
  const std::int64_t cols = view.shape[3];
  const std::int64_t written = head.problem().packed ? count : view.shape[2] - begin;
  const Rows rows = head.problem().rows(view, head.b, h, begin);
  for_rows(head.problem().threads, written, cols, [&](int, std::int64_t i) {
    char* to = const_cast<char*>(rows[i]);
    if (i < count) {
      narrow_row(view.dtype, from + i * cols, cols, to);
    } else {
      std::fill_n(to, static_cast<std::size_t>(cols) * size_of(view.dtype), char{0});
    }
  });
}

// Computes c = factor * a b^T, rounded to the problem's type.
void matmul_into_scores(const Head& head, const Matrix& a, const Matrix& b, float factor, const ScoreMatrix& c) {
  const Matrix right = transposed(b);
  for_row_blocks(head.call.blas, {a.rows, a.cols, right.cols}, [&](int thread, std::int64_t first, std::int64_t count) {
    float* block = c.open(first, head.strip(thread));
    gemm_block(head.call.blas, row_range(a, first, count), right, block, Accumulate::no);
    if (factor != 1) {
      for (std::int64_t j = 0; j < count * right.cols; ++j) block[j] *= factor;
    }
    for (std::int64_t i = 0; i < count; ++i) c.store(first + i, block + i * right.cols);
  });
}

// Computes c = scores b; c is [rows][b.cols].
void matmul_rows(const Head& head, const ScoreMatrix& scores, const Matrix& b, float* c) {
  for_row_blocks(head.call.blas, {head.rows(), b.rows, b.cols},
                 [&](int thread, std::int64_t first, std::int64_t count) {
                   const Matrix a = scores.some_rows(first, count, head.strip(thread));
                   gemm_block(head.call.blas, a, b, c + first * b.cols, Accumulate::no);
                 });
}

// Computes c (+)= scores^T b; c is [keys][b.cols]. Accumulates for every head of a group except the first.
void add_columns(const Head& head, const ScoreMatrix& scores, const Matrix& b, float* c) {
  const Accumulate accumulate = head.member() == 0 ? Accumulate::no : Accumulate::yes;
  for_row_blocks(head.call.blas, {head.keys(), b.rows, b.cols},
                 [&](int thread, std::int64_t first, std::int64_t count) {
                   const Matrix a = scores.some_columns(first, count, head.strip(thread));
                   gemm_block(head.call.blas, transposed(a), b, c + first * b.cols, accumulate);
                 });
}

void store_group(const Head& head, const View& view, const float* sum) {
  if (head.member() + 1 < head.problem().group) return;
  store(head, view, head.kv_head(), head.extent.k_begin, head.keys(), sum);
  const Rows skipped = head.problem().rows(view, head.b, head.kv_head(), head.extent.k_begin - head.extent.k_skipped);
  const std::size_t bytes = static_cast<std::size_t>(view.shape[3]) * size_of(view.dtype);
  for (std::int64_t j = 0; j < head.extent.k_skipped; ++j) std::fill_n(const_cast<char*>(skipped[j]), bytes, char{0});
}

void probabilities_of(const Call& call, HeadRange heads) {
  const Problem& problem = call.problem;
  for_heads(call, heads, "QK^T matmul", ScopeKind::matmul, [&](const Head& head) {
    matmul_into_scores(head, load_rows(head, problem.q), load_keys(head, problem.k), problem.scale, head.scores());
  });
  for_heads(call, heads, "softmax", ScopeKind::other, [](const Head& head) { softmax(head); });
  if (problem.dropout.p == 0) return;
  for_heads(call, heads, "dropout", ScopeKind::other, [](const Head& head) { dropout(head); });
}

// Sums dbias and dsinks over heads, in the order of the heads.
void shared_gradients(const Call& call, HeadRange heads) {
  const Problem& problem = call.problem;
  const ProfileScope part("shared gradients");
  for (std::int64_t index = 0; index < heads.count; ++index) {
    const Head head(call, heads.first, index, 0);
    if (problem.dbias) bias_gradient(head);
    for (std::int64_t i = 0; i < head.rows() && problem.dsinks; ++i) problem.dsinks[head.hq] += head.sinks()[i];
  }
}

}  // namespace

void forward_pass(const Call& call, HeadRange heads) {
  const Problem& problem = call.problem;
  probabilities_of(call, heads);
  for_heads(call, heads, "PV matmul", ScopeKind::matmul, [&](const Head& head) {
    float* o = head.in_slot(call.layout.out);
    matmul_rows(head, head.dropped(), load_keys(head, problem.v), o);
    store(head, problem.o, head.hq, head.extent.q_begin, head.rows(), o);
  });
}

void backward_pass(const Call& call, HeadRange heads) {
  const Problem& problem = call.problem;
  probabilities_of(call, heads);
  for_groups(call, heads, "dV matmul", [&](const Head& head) {
    float* dv = head.in_slot(call.layout.dv);
    add_columns(head, head.dropped(), load_rows(head, problem.d_o), dv);
    store_group(head, problem.dv_out, dv);
  });
  for_heads(call, heads, "dP matmul", ScopeKind::matmul, [&](const Head& head) {
    matmul_into_scores(head, load_rows(head, problem.d_o), load_keys(head, problem.v), 1, head.d_probabilities());
  });
  for_heads(call, heads, "softmax gradient", ScopeKind::other, [](const Head& head) { softmax_gradient(head); });
  if (problem.dbias || problem.dsinks) shared_gradients(call, heads);
  for_heads(call, heads, "dQ matmul", ScopeKind::matmul, [&](const Head& head) {
    float* dq = head.in_slot(call.layout.out);
    matmul_rows(head, head.d_scores(), load_keys(head, problem.k), dq);
    store(head, problem.dq, head.hq, head.extent.q_begin, head.rows(), dq);
  });
  for_groups(call, heads, "dK matmul", [&](const Head& head) {
    float* dk = head.in_slot(call.layout.dk);
    add_columns(head, head.d_scores(), load_rows(head, problem.q), dk);
    store_group(head, problem.dk, dk);
  });
}

}  // namespace strobe::standard::cpu
