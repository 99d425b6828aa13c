// Implements score options, softmax, dropout and their gradients for one head (head.h). The result of every step is
// rounded to the problem's type, as in a tensor library.
#include "attention/standard/cpu/head.h"

#include <cmath>

#include "core/philox.h"

namespace strobe::standard::cpu {
namespace {

// Converts the scores of one row to logits: softcap, ALiBi, bias, boolean mask, in this order. tanh_row receives
// tanh(s / softcap) unless it is null.
void apply_options(const Head& head, std::int64_t i, Interval keys, float* row, float* tanh_row) {
  const Problem& problem = head.problem();
  const std::int64_t n = keys.hi - keys.lo;
  if (problem.softcap != 0) {
    for (std::int64_t j = 0; j < n; ++j) row[j] = std::tanh(row[j] / problem.softcap);
    round_row(problem.dtype, row, n);
    if (tanh_row) std::copy_n(row, n, tanh_row);
    for (std::int64_t j = 0; j < n; ++j) row[j] *= problem.softcap;
    round_row(problem.dtype, row, n);
  }
  if (problem.alibi_slopes) {
    const float slope = problem.slope(head.b, head.hq);
    const std::int64_t diagonal = i + problem.offset(head.extent) - keys.lo;
    for (std::int64_t j = 0; j < n; ++j) row[j] -= slope * static_cast<float>(std::abs(diagonal - j));
    round_row(problem.dtype, row, n);
  }
  if (problem.has_bias) {
    const auto& stride = problem.bias.stride;
    const std::int64_t at = head.b * stride[0] + head.hq * stride[1] + i * stride[2] + keys.lo + head.extent.k_skipped;
    const auto bytes = static_cast<std::int64_t>(size_of(problem.bias.dtype));
    add_bias(problem.bias.dtype, static_cast<const char*>(problem.bias.data) + at * bytes, n, row);
    round_row(problem.dtype, row, n);
  }
  if (problem.has_mask) {
    const std::int64_t stride = problem.mask.stride[3];
    const unsigned char* const mask = problem.mask_row(head.extent, head.b, head.hq, i) + keys.lo * stride;
    for (std::int64_t j = 0; j < n; ++j) row[j] = mask[j * stride] != 0 ? row[j] : -kInfinity;
  }
}

// Converts one row from the gradient of the logits to that of q.k, through softcap and scale.
void options_gradient(const Head& head, std::int64_t i, Interval keys, float* row, float* buffer) {
  const Problem& problem = head.problem();
  if (problem.softcap != 0) {
    const float* tanh_row = head.tanh().read(i, buffer);
    for (std::int64_t j = keys.lo; j < keys.hi; ++j) row[j] *= 1 - tanh_row[j] * tanh_row[j];
    round_row(problem.dtype, row + keys.lo, keys.hi - keys.lo);
  }
  for (std::int64_t j = keys.lo; j < keys.hi; ++j) row[j] *= problem.scale;
}

void clear_masked(const Head& head, Interval keys, float* row) {
  std::fill(row, row + keys.lo, 0.0f);
  std::fill(row + keys.hi, row + head.keys(), 0.0f);
}

void add_dbias(const Head& head) {
  const Problem& problem = head.problem();
  constexpr std::int64_t kColumns = 512;
  const auto& stride = problem.dbias.stride;
  float* dbias =
      static_cast<float*>(problem.dbias.data) + head.b * stride[0] + head.hq * stride[1] + head.extent.k_skipped;
  const ScoreMatrix d_scores = head.d_scores();
  // Tasks divide the columns, since all rows may share one row of the bias.
  parallel_for(problem.threads, ceil_div(head.keys(), kColumns), [&](int, std::int64_t task) {
    const std::int64_t first = task * kColumns;
    const std::int64_t count = std::min(head.keys() - first, kColumns);
    float from[kColumns];
    for (std::int64_t i = 0; i < head.rows(); ++i) {
      d_scores.copy(i, first, first + count, from);
      float* to = dbias + i * stride[2] + first;
      for (std::int64_t j = 0; j < count; ++j) to[j] += from[j];
    }
  });
}

}  // namespace

void softmax(const Head& head) {
  const Problem& problem = head.problem();
  const ScoreMatrix scores = head.scores(), probabilities = head.probabilities(), tanh = head.tanh();
  const bool keeps_tanh = head.call.backward() && problem.softcap != 0;
  const float* sink = problem.sinks ? problem.sinks + head.hq : nullptr;
  for_rows(problem.threads, head.rows(), head.keys(), [&](int thread, std::int64_t i) {
    const Interval keys = head.allowed(i);
    float* row = probabilities.open(i, head.strip(thread));
    float* tanh_row = keeps_tanh ? tanh.open(i, head.strip(thread) + head.keys()) + keys.lo : nullptr;
    scores.copy(i, keys.lo, keys.hi, row + keys.lo);
    clear_masked(head, keys, row);
    apply_options(head, i, keys, row + keys.lo, tanh_row);
    const bool has_keys = problem.allows_any(head.extent, head.b, head.hq, i, keys);
    const Softmax result = softmax_row(row + keys.lo, keys.hi - keys.lo, has_keys ? sink : nullptr);
    probabilities.store(i, row);
    if (keeps_tanh) tanh.store(i, tanh_row - keys.lo, keys.lo, keys.hi);
    if (head.call.backward()) {
      head.sinks()[i] = result.sink;
    } else if (problem.lse) {
      problem.lse[problem.lse_index(head.b, head.hq, head.extent.q_begin, i)] = result.lse;
    }
  });
  if (!problem.lse || head.call.backward() || problem.packed) return;
  for (std::int64_t i = head.rows(); i < problem.max_seqlen_q; ++i) {
    problem.lse[problem.lse_index(head.b, head.hq, 0, i)] = -kInfinity;
  }
}

void dropout(const Head& head) {
  const Problem& problem = head.problem();
  const ScoreMatrix probabilities = head.probabilities(), dropped = head.dropped();
  const std::uint32_t threshold = dropout_threshold(problem.dropout.p);
  const auto factor = static_cast<float>(dropout_scale(dropout_threshold(problem.dropout.p)));
  for_rows(problem.threads, head.rows(), head.keys(), [&](int thread, std::int64_t i) {
    const Interval keys = head.allowed(i);
    const float* from = probabilities.read(i, head.strip(thread));
    float* to = dropped.open(i, head.strip(thread));
    for (std::int64_t j = keys.lo; j < keys.hi; ++j) {
      to[j] = dropout_keeps(problem.dropout.seed, threshold, head.b, head.hq, i, j + head.extent.k_skipped)
                  ? from[j] * factor
                  : 0.0f;
    }
    clear_masked(head, keys, to);
    dropped.store(i, to);
  });
}

void softmax_gradient(const Head& head) {
  const Problem& problem = head.problem();
  const ScoreMatrix probabilities = head.probabilities(), dropped = head.dropped();
  const ScoreMatrix d_probabilities = head.d_probabilities(), d_scores = head.d_scores();
  const auto factor = static_cast<float>(dropout_scale(dropout_threshold(problem.dropout.p)));
  for_rows(problem.threads, head.rows(), head.keys(), [&](int thread, std::int64_t i) {
    const Interval keys = head.allowed(i);
    const std::int64_t n = keys.hi - keys.lo;
    float* const buffer = head.strip(thread) + head.keys();
    float* all = d_scores.open(i, head.strip(thread));
    float* row = all + keys.lo;
    d_probabilities.copy(i, keys.lo, keys.hi, row);
    clear_masked(head, keys, all);
    if (problem.dropout.p != 0) {  // a kept probability of 0 looks dropped, but its dS is 0 anyway
      const float* kept = dropped.read(i, buffer) + keys.lo;
      for (std::int64_t j = 0; j < n; ++j) row[j] = kept[j] == 0 ? 0.0f : row[j] * factor;
      round_row(problem.dtype, row, n);
    }
    const float* p = probabilities.read(i, buffer) + keys.lo;
    float delta = dot_of(p, row, n);
    if (problem.d_lse && problem.allows_any(head.extent, head.b, head.hq, i, keys)) {
      delta -= problem.d_lse_of(head.b, head.hq, head.extent.q_begin, i);
    }
    for (std::int64_t j = 0; j < n; ++j) row[j] = p[j] * (row[j] - delta);
    head.sinks()[i] *= -delta;
    if (!problem.dbias) {
      round_row(problem.dtype, row, n);
      options_gradient(head, i, keys, all, buffer);
    }
    d_scores.store(i, all);
  });
}

void bias_gradient(const Head& head) {
  const Problem& problem = head.problem();
  const ScoreMatrix d_scores = head.d_scores();
  add_dbias(head);
  for_rows(problem.threads, head.rows(), head.keys(), [&](int thread, std::int64_t i) {
    const Interval keys = head.allowed(i);
    float* row = d_scores.open(i, head.strip(thread));
    d_scores.copy(i, 0, head.keys(), row);
    options_gradient(head, i, keys, row, head.strip(thread) + head.keys());
    d_scores.store(i, row);
  });
}

}  // namespace strobe::standard::cpu
