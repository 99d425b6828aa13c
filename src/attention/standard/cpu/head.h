// State of one call of the CPU kernels `standard` and `frugal` (Call) and of one query head (Head). Declares the
// operations on one head (softmax.cpp) and on the heads of a pass (passes.cpp).
#pragma once

#include <algorithm>

#include "attention/standard/cpu/layout.h"
#include "attention/standard/cpu/score_matrix.h"
#include "core/divide.h"
#include "device/host/blas.h"
#include "device/host/thread_pool.h"

namespace strobe::standard::cpu {

struct Call {
  const Problem& problem;
  const WorkspaceLayout& layout;
  char* workspace;
  const blas::BlasSession& blas;

  bool backward() const { return problem.pass == Pass::backward; }
};

// Calls body(thread, i) for each row i in parallel. A task has several rows if rows are short (`cols` elements each).
template <class Body>
void for_rows(int threads, std::int64_t rows, std::int64_t cols, Body&& body) {
  const std::int64_t chunk = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
  parallel_for(threads, ceil_div(rows, chunk), [&](int thread, std::int64_t task) {
    for (std::int64_t i = task * chunk; i < std::min(rows, (task + 1) * chunk); ++i) body(thread, i);
  });
}

struct Head {
  const Call& call;
  std::int64_t index;  // index of the head within the pass
  std::int64_t b, hq;
  int slot;  // index of the thread if each thread computes whole heads, else 0
  Extent extent;

  Head(const Call& call, std::int64_t first, std::int64_t index, int slot)
      : call(call),
        index(index),
        b((first + index) / call.problem.heads_q),
        hq((first + index) % call.problem.heads_q),
        slot(slot),
        extent(call.problem.extent(b)) {}

  const Problem& problem() const { return call.problem; }
  std::int64_t rows() const { return extent.seqlen_q; }
  std::int64_t keys() const { return extent.seqlen_k; }
  std::int64_t kv_head() const { return hq / call.problem.group; }
  std::int64_t member() const { return hq % call.problem.group; }

  Interval allowed(std::int64_t i) const {
    const Interval keys = call.problem.allowed(extent, i);
    return keys.lo < keys.hi ? keys : Interval{0, 0};  // an empty interval may start past the last key
  }

  ScoreMatrix scores() const { return matrix(call.layout.scores); }
  ScoreMatrix probabilities() const { return matrix(call.layout.probabilities); }
  ScoreMatrix tanh() const { return matrix(call.layout.tanh); }
  ScoreMatrix dropped() const { return matrix(call.layout.dropped); }  // probabilities after dropout
  ScoreMatrix d_probabilities() const { return matrix(call.layout.d_probabilities); }
  ScoreMatrix d_scores() const { return matrix(call.layout.d_scores); }
  float* sinks() const { return floats(call.layout.sinks) + index * call.problem.max_seqlen_q; }

  float* in_slot(std::int64_t offset) const { return floats(slot * call.layout.slot_bytes + offset); }
  // Returns the scratch of a thread. If `slot` is not 0, `thread` is 0, because a nested parallel_for runs on the
  // calling thread.
  float* strip(int thread) const { return floats(call.layout.strips + (slot + thread) * call.layout.strip_bytes); }

 private:
  float* floats(std::int64_t offset) const { return reinterpret_cast<float*>(call.workspace + offset); }
  ScoreMatrix matrix(std::int64_t offset) const {
    const std::int64_t elements = index * call.problem.max_seqlen_q * call.problem.max_seqlen_k;
    const auto element = static_cast<std::int64_t>(size_of(call.layout.stored));
    return {call.workspace + offset + elements * element, call.layout.stored, problem().dtype, rows(), keys()};
  }
};

// --- operations on the rows of a head's score matrices ---------------------------------------------------------------

// Computes probabilities() = softmax(mask(options(scores()))). Also writes LSE in forward, tanh() and sinks() in
// backward.
void softmax(const Head& head);

// Computes dropped() from probabilities().
void dropout(const Head& head);

// Computes d_scores() from d_probabilities(): the gradient of q.k, or of the logits if dbias is wanted. Replaces the
// probabilities in sinks() by the rows' contributions to dsinks.
void softmax_gradient(const Head& head);

// Adds d_scores() to dbias, then converts d_scores() from the gradient of the logits to that of q.k.
void bias_gradient(const Head& head);

// --- passes ----------------------------------------------------------------------------------------------------------

// Query heads [first, first + count), numbered b * heads_q + hq.
struct HeadRange {
  std::int64_t first, count;
};

// forward_pass() and backward_pass() run the operations (matmuls, softmax, ...) one after the other, each on all heads
// of the range.
void forward_pass(const Call& call, HeadRange heads);

// With one head per pass (`frugal`), dK and dV accumulate over the heads of a group. The calls must then process these
// heads in order, without heads of other groups in between.
void backward_pass(const Call& call, HeadRange heads);

}  // namespace strobe::standard::cpu
