// The kernel `reference`: attention in float64, one row and one key at a time, without storing anything of size Sq x
// Sk. A row reads K and V only of keys that it may use, so a NaN in other keys does not affect the row.
#include "attention/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/kernel_list.h"
#include "core/half.h"
#include "core/philox.h"
#include "device/host/thread_pool.h"

namespace strobe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double dot(const double* a, const double* b, std::int64_t n) {
  constexpr int kSums = 8;  // independent sums let the compiler vectorise
  double sums[kSums] = {};
  std::int64_t c = 0;
  for (; c + kSums <= n; c += kSums) {
    for (int lane = 0; lane < kSums; ++lane) sums[lane] += a[c + lane] * b[c + lane];
  }
  double sum = 0;
  for (; c < n; ++c) sum += a[c] * b[c];
  for (const double part : sums) sum += part;
  return sum;
}

void add_scaled(double* out, double factor, const double* row, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) out[c] += factor * row[c];
}

// Converts `count` rows of the caller's tensor to doubles, contiguous [count][cols].
template <class Void>
void widen(const BasicView<Void>& view, const Rows& rows, std::int64_t count, std::int64_t cols, double* out) {
  const std::int64_t step = view.stride[3];  // 1, or 0 if dO is expanded
  for (std::int64_t i = 0; i < count; ++i) {
    const char* row = rows[i];
    double* to = out + i * cols;
    switch (view.dtype) {
      case DType::fp32:
        for (std::int64_t c = 0; c < cols; ++c) to[c] = reinterpret_cast<const float*>(row)[c * step];
        break;
      case DType::fp16:
        for (std::int64_t c = 0; c < cols; ++c) {
          to[c] = fp16_to_float(reinterpret_cast<const std::uint16_t*>(row)[c * step]);
        }
        break;
      case DType::bf16:
        for (std::int64_t c = 0; c < cols; ++c) {
          to[c] = bf16_to_float(reinterpret_cast<const std::uint16_t*>(row)[c * step]);
        }
        break;
    }
  }
}

// Query row i and key j, an index within the extent, with the values that score options need.
struct Pair {
  std::int64_t b, hq, i, j;
  std::int64_t offset;
  std::int64_t k_skipped;
};

struct Logit {
  double value;
  double slope;  // d value / d (q.k)
};

// Applies the score options in the specified order: scale, softcap, ALiBi, bias.
Logit logit_of(const Problem& problem, const Pair& pair, double q_dot_k) {
  double s = problem.scale * q_dot_k;
  double slope = problem.scale;
  if (problem.softcap != 0) {
    const double inner = s / problem.softcap, cosine = std::cosh(inner);
    s = problem.softcap * std::tanh(inner);
    slope = slope / cosine / cosine;  // computing 1 - tanh^2 would cancel
  }
  if (problem.alibi_slopes) {
    const std::int64_t distance = std::abs(pair.i + pair.offset - pair.j);
    s -= static_cast<double>(problem.slope(pair.b, pair.hq)) * static_cast<double>(distance);
  }
  if (problem.has_bias) {
    const auto& stride = problem.bias.stride;
    const std::int64_t at = pair.b * stride[0] + pair.hq * stride[1] + pair.i * stride[2] + pair.j + pair.k_skipped;
    s += load_element(problem.bias.data, problem.bias.dtype, at);
  }
  return {s, slope};
}

// Returns the dropout factor of a probability, which is 0 if dropped; 1 without dropout.
double kept(const Problem& problem, const Pair& pair) {
  if (problem.dropout.p == 0) return 1;
  const std::uint32_t threshold = dropout_threshold(problem.dropout.p);
  if (!dropout_keeps(problem.dropout.seed, threshold, pair.b, pair.hq, pair.i, pair.j + pair.k_skipped)) return 0;
  return dropout_scale(threshold);
}

// Returns true if there is no boolean mask, or if it allows the pair.
bool allows(const Problem& problem, const Pair& pair) {
  if (!problem.has_mask) return true;
  const auto& stride = problem.mask.stride;
  const std::int64_t at =
      pair.b * stride[0] + pair.hq * stride[1] + pair.i * stride[2] + (pair.j + pair.k_skipped) * stride[3];
  return static_cast<const unsigned char*>(problem.mask.data)[at] != 0;
}

// One KV head of one sequence with the query heads of its group.
struct Unit {
  std::int64_t b, hkv;
  Extent extent;
  const double* k;  // [seqlen_k][d]
  const double* v;  // [seqlen_k][dv]
};

// Largest logit of a row, and the logarithm of the sum of exp(logit - max). LSE is their sum, but they are stored
// separately. With a bias such as -FLT_MAX on a whole row, rounding LSE would lose log_sum, and exp(logit - LSE) would
// not sum to 1.
struct Normaliser {
  double max = -kInfinity;  // -inf if the row may use no key
  double log_sum = 0;
  bool empty() const { return max == -kInfinity; }
  double lse() const { return max + log_sum; }
  double weight(double logit) const { return std::exp(logit - max - log_sum); }
};

// Computes the logits of one row (and, if `slopes` is not null, their derivatives) and returns their normaliser.
Normaliser score_row(const Problem& problem, const Unit& unit, Pair pair, Interval keys, const double* q,
                     double* scores, double* slopes) {
  double max = -kInfinity;
  bool has_keys = false;
  for (pair.j = keys.lo; pair.j < keys.hi; ++pair.j) {
    scores[pair.j] = -kInfinity;
    if (!allows(problem, pair)) continue;
    has_keys = true;
    const Logit logit = logit_of(problem, pair, dot(q, unit.k + pair.j * problem.d, problem.d));
    scores[pair.j] = logit.value;
    if (slopes) slopes[pair.j] = logit.slope;
    max = std::max(max, logit.value);
    if (std::isnan(logit.value)) max = logit.value;  // max stays NaN: every comparison with NaN is false
  }
  if (!has_keys) return {};
  if (problem.sinks) max = std::max(max, static_cast<double>(problem.sinks[pair.hq]));
  if (max == -kInfinity) return {};  // a bias of -inf masks the whole row
  double sum = problem.sinks ? std::exp(problem.sinks[pair.hq] - max) : 0;
  for (std::int64_t j = keys.lo; j < keys.hi; ++j) sum += std::exp(scores[j] - max);
  return {max, std::log(sum)};
}

// Offsets into the workspace, in doubles. The workspace holds K and V of one unit, and in the backward pass also its Q
// and dO.
struct WorkspaceLayout {
  std::int64_t k, v, q, d_o, max, log_sum, delta, sink, dbias, dsinks, threads;
  std::int64_t per_thread, total;
};

std::int64_t elements(const ConstView& view) { return view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3]; }

WorkspaceLayout layout_of(const Problem& problem) {
  std::int64_t end = 0;
  const auto take = [&end](std::int64_t count) {
    const std::int64_t begin = end;
    end += count;
    return begin;
  };
  const bool backward = problem.pass == Pass::backward;
  const std::int64_t rows = backward ? problem.group * problem.max_seqlen_q : 0;
  WorkspaceLayout layout{};
  layout.k = take(problem.max_seqlen_k * problem.d);
  layout.v = take(problem.max_seqlen_k * problem.dv);
  layout.q = take(rows * problem.d);
  layout.d_o = take(rows * problem.dv);
  layout.max = take(rows);
  layout.log_sum = take(rows);
  layout.delta = take(rows);
  layout.sink = take(rows);
  layout.dbias = take(backward && problem.wants_dbias ? elements(problem.dbias) : 0);
  layout.dsinks = take(backward && problem.wants_dsinks ? problem.heads_q : 0);
  layout.per_thread = problem.d + problem.dv + (backward ? 3 : 1) * problem.max_seqlen_k;
  layout.threads = take(layout.per_thread * std::max(1, problem.threads));
  layout.total = end;
  return layout;
}

// Returns the number of threads for a unit with `pairs` pairs of a row and a key. A small unit gets one thread, since
// it would be finished before a second thread starts.
int team(const Problem& problem, std::int64_t pairs) {
  return pairs * (problem.d + problem.dv) < (1 << 15) ? 1 : std::max(1, problem.threads);
}

Unit widen_unit(const Problem& problem, const WorkspaceLayout& layout, double* workspace, std::int64_t b,
                std::int64_t hkv) {
  const Extent extent = problem.extent(b);
  double* k = workspace + layout.k;
  double* v = workspace + layout.v;
  if (extent.seqlen_k > 0) {
    widen(problem.k, problem.rows(problem.k, b, hkv, extent.k_begin), extent.seqlen_k, problem.d, k);
    widen(problem.v, problem.rows(problem.v, b, hkv, extent.k_begin), extent.seqlen_k, problem.dv, v);
  }
  return {b, hkv, extent, k, v};
}

// Returns the number of rows written per sequence. In a padded batch it is max_seqlen_q, since rows past the length are
// zeroed.
std::int64_t rows_written(const Problem& problem, const Extent& extent) {
  return problem.packed ? extent.seqlen_q : problem.max_seqlen_q;
}

// Calls write(b, hq, row of the view, o [dv], lse) for every row.
template <class Write>
void forward_rows(const Problem& problem, double* workspace, Write&& write) {
  const WorkspaceLayout layout = layout_of(problem);
  for (std::int64_t at = 0; at < problem.batch * problem.heads_kv; ++at) {
    const Unit unit = widen_unit(problem, layout, workspace, at / problem.heads_kv, at % problem.heads_kv);
    const Extent& extent = unit.extent;
    const std::int64_t rows = rows_written(problem, extent);
    const std::int64_t tasks = problem.group * rows;
    parallel_for(team(problem, tasks * extent.seqlen_k), tasks, [&](int thread, std::int64_t task) {
      double* q = workspace + layout.threads + thread * layout.per_thread;
      double* o = q + problem.d;
      double* scores = o + problem.dv;
      Pair pair{unit.b,          unit.hkv * problem.group + task / rows, task % rows, 0, problem.offset(extent),
                extent.k_skipped};
      std::fill_n(o, problem.dv, 0.0);
      Normaliser row;
      if (pair.i < extent.seqlen_q) {
        widen(problem.q, problem.rows(problem.q, unit.b, pair.hq, extent.q_begin + pair.i), 1, problem.d, q);
        const Interval keys = problem.allowed(extent, pair.i);
        row = score_row(problem, unit, pair, keys, q, scores, nullptr);
        for (pair.j = keys.lo; pair.j < keys.hi && !row.empty(); ++pair.j) {
          if (!allows(problem, pair)) continue;
          const double weight = row.weight(scores[pair.j]) * kept(problem, pair);
          add_scaled(o, weight, unit.v + pair.j * problem.dv, problem.dv);
        }
      }
      write(pair.b, pair.hq, extent.q_begin + pair.i, o, row.lse());
    });
  }
}

// Arrays of a unit's rows in backward; each is [group][seqlen_q].
struct RowFacts {
  double* q;    // [..][d]
  double* d_o;  // [..][dv]
  double* max;
  double* log_sum;
  double* delta;  // sum over keys of P * dP, minus the gradient of LSE
  double* sink;   // the row's contribution to dsinks
};

// Adds dQ of row r of the unit to dq [d], and sets the row's max, log_sum, delta and sink.
void backward_row(const Problem& problem, const Unit& unit, const RowFacts& facts, std::int64_t r, Pair pair,
                  double* scratch, double* dq) {
  double* scores = scratch;
  double* slopes = scores + problem.max_seqlen_k;
  double* d_weights = slopes + problem.max_seqlen_k;
  const Interval keys = problem.allowed(unit.extent, pair.i);
  const Normaliser row = score_row(problem, unit, pair, keys, facts.q + r * problem.d, scores, slopes);
  double delta = 0;
  facts.max[r] = row.max;
  facts.log_sum[r] = row.log_sum;
  facts.delta[r] = facts.sink[r] = 0;
  if (row.empty()) return;
  for (pair.j = keys.lo; pair.j < keys.hi; ++pair.j) {
    if (!allows(problem, pair)) continue;
    const double d_kept = dot(facts.d_o + r * problem.dv, unit.v + pair.j * problem.dv, problem.dv);
    d_weights[pair.j] = d_kept * kept(problem, pair);
    delta += row.weight(scores[pair.j]) * d_weights[pair.j];
  }
  delta -= problem.d_lse_of(pair.b, pair.hq, unit.extent.q_begin, pair.i);
  for (pair.j = keys.lo; pair.j < keys.hi; ++pair.j) {
    if (!allows(problem, pair)) continue;
    const double d_score = row.weight(scores[pair.j]) * (d_weights[pair.j] - delta);
    add_scaled(dq, d_score * slopes[pair.j], unit.k + pair.j * problem.d, problem.d);
  }
  facts.delta[r] = delta;
  if (problem.sinks) facts.sink[r] = -row.weight(problem.sinks[pair.hq]) * delta;
}

// Adds to dk [d], dv [dv] and the key's column of dbias the contributions of the unit's rows that use key j.
void backward_key(const Problem& problem, const Unit& unit, const RowFacts& facts, std::int64_t j, double* dk,
                  double* dv, double* dbias) {
  const std::int64_t rows = unit.extent.seqlen_q;
  const auto& shape = problem.bias.shape;
  for (std::int64_t r = 0; r < problem.group * rows; ++r) {
    const Pair pair{unit.b, unit.hkv * problem.group + r / rows, r % rows,
                    j,      problem.offset(unit.extent),         unit.extent.k_skipped};
    const Interval keys = problem.allowed(unit.extent, pair.i);
    const Normaliser row{facts.max[r], facts.log_sum[r]};
    if (j < keys.lo || j >= keys.hi || row.empty() || !allows(problem, pair)) continue;
    const double* q = facts.q + r * problem.d;
    const double* d_o = facts.d_o + r * problem.dv;
    const Logit logit = logit_of(problem, pair, dot(q, unit.k + j * problem.d, problem.d));
    const double weight = row.weight(logit.value);
    const double factor = kept(problem, pair);
    const double d_weight = dot(d_o, unit.v + j * problem.dv, problem.dv) * factor;
    const double d_score = weight * (d_weight - facts.delta[r]);
    add_scaled(dk, d_score * logit.slope, q, problem.d);
    add_scaled(dv, weight * factor, d_o, problem.dv);
    if (dbias) {
      const std::int64_t b = shape[0] == 1 ? 0 : pair.b;
      const std::int64_t h = shape[1] == 1 ? 0 : pair.hq;
      const std::int64_t i = shape[2] == 1 ? 0 : pair.i;
      dbias[((b * shape[1] + h) * shape[2] + i) * shape[3] + j + unit.extent.k_skipped] += d_score;
    }
  }
}

// Calls write_q(b, hq, row of the view, dq [d]) for every row, and write_k(b, hkv, key of the view, dk [d], dv [dv])
// for every key. Units run one after the other. Within a unit, one task computes the dQ of a row, and one task the dK,
// the dV and the column of dbias of a key. Every sum therefore has the same order for any number of threads.
template <class WriteQ, class WriteK>
void backward_rows(const Problem& problem, double* workspace, double* dbias, double* dsinks, WriteQ&& write_q,
                   WriteK&& write_k) {
  const WorkspaceLayout layout = layout_of(problem);
  const RowFacts facts{workspace + layout.q,       workspace + layout.d_o,   workspace + layout.max,
                       workspace + layout.log_sum, workspace + layout.delta, workspace + layout.sink};
  if (dbias) std::fill_n(dbias, elements(problem.bias), 0.0);
  if (dsinks) std::fill_n(dsinks, problem.heads_q, 0.0);
  for (std::int64_t at = 0; at < problem.batch * problem.heads_kv; ++at) {
    const Unit unit = widen_unit(problem, layout, workspace, at / problem.heads_kv, at % problem.heads_kv);
    const Extent& extent = unit.extent;
    const std::int64_t first_head = unit.hkv * problem.group;
    for (std::int64_t g = 0; g < problem.group && extent.seqlen_q > 0; ++g) {
      const auto from = [&](const ConstView& view) {
        return problem.rows(view, unit.b, first_head + g, extent.q_begin);
      };
      widen(problem.q, from(problem.q), extent.seqlen_q, problem.d, facts.q + g * extent.seqlen_q * problem.d);
      widen(problem.d_o, from(problem.d_o), extent.seqlen_q, problem.dv, facts.d_o + g * extent.seqlen_q * problem.dv);
    }
    const int threads = team(problem, problem.group * extent.seqlen_q * extent.seqlen_k);
    const std::int64_t rows = rows_written(problem, extent);
    parallel_for(threads, problem.group * rows, [&](int thread, std::int64_t task) {
      double* dq = workspace + layout.threads + thread * layout.per_thread;
      const std::int64_t g = task / rows;
      const std::int64_t i = task % rows;
      const Pair pair{unit.b, first_head + g, i, 0, problem.offset(extent), extent.k_skipped};
      std::fill_n(dq, problem.d, 0.0);
      if (i < extent.seqlen_q) {
        backward_row(problem, unit, facts, g * extent.seqlen_q + i, pair, dq + problem.d + problem.dv, dq);
      }
      write_q(unit.b, first_head + g, extent.q_begin + i, dq);
    });
    const std::int64_t skipped = extent.k_skipped;
    const std::int64_t keys = problem.packed ? skipped + extent.seqlen_k : problem.max_seqlen_k;
    parallel_for(threads, keys, [&](int thread, std::int64_t key) {
      const std::int64_t j = key - skipped;
      double* dk = workspace + layout.threads + thread * layout.per_thread;
      double* dv = dk + problem.d;
      std::fill_n(dk, problem.d + problem.dv, 0.0);
      if (j >= 0 && j < extent.seqlen_k) backward_key(problem, unit, facts, j, dk, dv, dbias);
      write_k(unit.b, unit.hkv, extent.k_begin + j, dk, dv);
    });
    for (std::int64_t r = 0; r < problem.group * extent.seqlen_q && dsinks; ++r) {
      dsinks[first_head + r / extent.seqlen_q] += facts.sink[r];
    }
  }
}

// Returns the index of a row in a contiguous tensor [B, heads, sequence, ...]; a packed batch has B = 1.
std::int64_t row_index(const Problem& problem, const ConstView& view, std::int64_t b, std::int64_t h,
                       std::int64_t row) {
  return ((problem.packed ? 0 : b) * view.shape[1] + h) * view.shape[2] + row;
}

void store_row(const Problem& problem, const View& view, std::int64_t b, std::int64_t h, std::int64_t row,
               const double* values) {
  void* to = const_cast<char*>(problem.rows(view, b, h, row).data);
  for (std::int64_t c = 0; c < view.shape[3]; ++c) store_element(to, view.dtype, c, static_cast<float>(values[c]));
}

void run_forward(const Problem& problem, double* workspace) {
  forward_rows(problem, workspace, [&](std::int64_t b, std::int64_t hq, std::int64_t row, const double* o, double lse) {
    store_row(problem, problem.o, b, hq, row, o);
    if (problem.lse) problem.lse[problem.lse_index(b, hq, row, 0)] = static_cast<float>(lse);
  });
}

void run_backward(const Problem& problem, double* workspace) {
  const WorkspaceLayout layout = layout_of(problem);
  double* dbias = problem.dbias ? workspace + layout.dbias : nullptr;
  double* dsinks = problem.dsinks ? workspace + layout.dsinks : nullptr;
  backward_rows(
      problem, workspace, dbias, dsinks,
      [&](std::int64_t b, std::int64_t hq, std::int64_t row, const double* dq) {
        store_row(problem, problem.dq, b, hq, row, dq);
      },
      [&](std::int64_t b, std::int64_t hkv, std::int64_t key, const double* dk, const double* dv) {
        store_row(problem, problem.dk, b, hkv, key, dk);
        store_row(problem, problem.dv_out, b, hkv, key, dv);
      });
  for (std::int64_t h = 0; h < problem.heads_q && dsinks; ++h) problem.dsinks[h] = static_cast<float>(dsinks[h]);
  if (!dbias) return;
  const auto& shape = problem.dbias.shape;
  const auto& stride = problem.dbias.stride;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
    const std::int64_t i = row % shape[2];
    const std::int64_t h = row / shape[2] % shape[1];
    const std::int64_t b = row / shape[2] / shape[1];
    float* to = static_cast<float*>(problem.dbias.data) + b * stride[0] + h * stride[1] + i * stride[2];
    for (std::int64_t j = 0; j < shape[3]; ++j) to[j] = static_cast<float>(dbias[row * shape[3] + j]);
  }
}

}  // namespace

namespace reference {

void forward64(const Problem& problem, double* o, double* lse) {
  Problem forward = problem;
  forward.pass = Pass::forward;
  std::vector<double> workspace(static_cast<std::size_t>(layout_of(forward).total));
  forward_rows(forward, workspace.data(),
               [&](std::int64_t b, std::int64_t hq, std::int64_t row, const double* from, double row_lse) {
                 const std::int64_t at = row_index(problem, problem.q, b, hq, row);
                 std::copy_n(from, problem.dv, o + at * problem.dv);
                 if (lse) lse[at] = row_lse;
               });
}

void backward64(const Problem& problem, const Gradients64& gradients) {
  Problem backward = problem;
  backward.pass = Pass::backward;
  std::vector<double> workspace(static_cast<std::size_t>(layout_of(backward).total));
  backward_rows(
      backward, workspace.data(), gradients.dbias, gradients.dsinks,
      [&](std::int64_t b, std::int64_t hq, std::int64_t row, const double* dq) {
        std::copy_n(dq, problem.d, gradients.dq + row_index(problem, problem.q, b, hq, row) * problem.d);
      },
      [&](std::int64_t b, std::int64_t hkv, std::int64_t key, const double* dk, const double* dv) {
        const std::int64_t at = row_index(problem, problem.k, b, hkv, key);
        std::copy_n(dk, problem.d, gradients.dk + at * problem.d);
        std::copy_n(dv, problem.dv, gradients.dv + at * problem.dv);
      });
}

}  // namespace reference

namespace {

struct ReferenceLaunch {
  std::string text(const Problem&) const { return "float64, row by row"; }
  void run(const Problem& problem, void* workspace) const {
    auto* doubles = static_cast<double*>(workspace);
    problem.pass == Pass::forward ? run_forward(problem, doubles) : run_backward(problem, doubles);
  }
};

}  // namespace

Plan plan_reference(const Problem& problem) {
  return Plan(ReferenceLaunch{}, static_cast<std::size_t>(layout_of(problem).total) * sizeof(double));
}

}  // namespace strobe
