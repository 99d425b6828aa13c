// Computes the gate's float64 reference in blocks of rows. dgemm computes scores and dP for all keys. A loop over rows
// then computes the softmax, O and dQ of sampled rows, and the row's contribution to dK and dV of sampled keys.
#include "bench/gate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <span>

#include "bench/gate_scores.h"
#include "core/divide.h"
#include "core/fail.h"
#include "core/half.h"
#include "device/host/blas.h"
#include "device/host/thread_pool.h"

namespace strobe::bench {
namespace {

constexpr std::int64_t kBlockRows = 64;

// Returns sample positions in [0, count): both ends, their neighbours, and some between that are not aligned to powers
// of two.
std::vector<std::int64_t> sample_positions(std::int64_t count, std::int64_t most) {
  std::set<std::int64_t> positions;
  for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, count - 2, count - 1}) {
    if (position >= 0 && position < count) positions.insert(position);
  }
  for (std::int64_t i = 1; static_cast<std::int64_t>(positions.size()) < std::min(most, count); ++i) {
    positions.insert(i * 7919 % count);
  }
  return {positions.begin(), positions.end()};
}

// Converts rows [first, first + count) of one head to float64.
std::vector<double> widen(const ConstView& view, std::int64_t b, std::int64_t h, std::int64_t first,
                          std::int64_t count) {
  const std::int64_t d = view.shape[3];
  std::vector<double> out(static_cast<std::size_t>(count * d));
  for (std::int64_t i = 0; i < count * d; ++i) {
    const std::int64_t index = b * view.stride[0] + h * view.stride[1] + (first + i / d) * view.stride[2] + i % d;
    out[static_cast<std::size_t>(i)] = load_element(view.data, view.dtype, index);
  }
  return out;
}

// C[m x n] = A[m x k] B[n x k]^T
void gemm_nt(const blas::BlasLibrary& library, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
             const double* b, double* c) {
  library.dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
                1, a, static_cast<int>(k), b, static_cast<int>(k), 0, c, static_cast<int>(n));
}

// Returns an error message if the tensor has a NaN; empty if it has none.
std::string find_nan(const char* name, const ConstView& view, int threads) {
  const std::int64_t count = view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3];
  constexpr std::int64_t kBlock = 1 << 16;
  std::atomic<std::int64_t> found = -1;
  parallel_for(threads, ceil_div(count, kBlock), [&](int, std::int64_t block) {
    for (std::int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      if (std::isnan(load_element(view.data, view.dtype, i))) found = i;
    }
  });
  return found < 0 ? "" : fmt::format("{} has NaN at element {} of {}", name, found.load(), count);
}

// Accumulates the largest error and the largest reference value of one tensor.
struct Meter {
  double error = 0;
  double largest = 0;
  std::int64_t values = 0;

  void add(double x, double reference) {
    ++values;
    if (std::isfinite(reference)) largest = std::max(largest, std::abs(reference));
    if (x == reference) return;  // also two equal infinities, whose difference is NaN
    const double difference = std::abs(x - reference);
    if (!(difference <= error)) error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
  }

  Comparison comparison(const char* name, DType dtype, bool tf32) const {
    return {name, error, gate_tolerance(dtype, tf32) * std::max(largest, 1e-6), values};
  }
};

}  // namespace

double gate_tolerance(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::fp32: return tf32 ? 1e-2 : 1e-4;
    case DType::fp16: return 1e-2;
    case DType::bf16: return 5e-2;
  }
  return 0;
}

// One KV head: its keys and values in float64, and the sampled keys that belong to it.
struct Gate::Head {
  const blas::BlasLibrary& library;
  const AttentionCase& one;
  const Inputs& inputs;
  std::int64_t batch;
  std::vector<double> k, v;
  std::vector<Key*> keys;
  double scale;
  std::mutex mutex;  // guards dk and dv of the keys

  // Computes rows [first, first + count) of query head hq. `sampled` has the sampled rows among them, in order.
  void compute(std::int64_t hq, std::int64_t first, std::int64_t count, std::span<Row* const> sampled) {
    const std::int64_t d = one.head_dim;
    const std::int64_t sk = one.seqlen_k;
    const bool backward = has_backward(one.passes);
    const auto size = static_cast<std::size_t>(count * sk);
    const std::vector<double> q = widen(inputs.attention.q, batch, hq, first, count);
    std::vector<double> probabilities(size);
    std::vector<double> d_probabilities(backward ? size : 0);
    std::vector<double> d_o;
    gemm_nt(library, count, sk, d, q.data(), k.data(), probabilities.data());
    if (backward) {
      d_o = widen(inputs.d_o_view, batch, hq, first, count);
      gemm_nt(library, count, sk, d, d_o.data(), v.data(), d_probabilities.data());
    }
    std::vector<double> keep_factor(static_cast<std::size_t>(sk));
    std::vector<double> slopes(static_cast<std::size_t>(sk));
    auto next = sampled.begin();
    for (std::int64_t r = 0; r < count; ++r) {
      const Keys visible = visible_keys(one, batch, first + r);
      const ScoredRow scored{one, inputs.attention, batch, hq, first + r};
      double* p = probabilities.data() + r * sk;
      double* ds = backward ? d_probabilities.data() + r * sk : nullptr;
      for (std::int64_t j = visible.first; j < visible.last; ++j) {
        keep_factor[static_cast<std::size_t>(j)] = scored.dropout_factor(j);
        slopes[static_cast<std::size_t>(j)] = scored.cap_slope(p[j] * scale);
        p[j] = scored.capped(p[j] * scale) + scored.bias_terms(j);
      }
      const double lse = softmax(p, visible, scored.sink());
      if (backward) score_gradient(p, ds, visible, keep_factor.data(), slopes.data());
      for (std::int64_t j = visible.first; j < visible.last; ++j) p[j] *= keep_factor[static_cast<std::size_t>(j)];
      if (next != sampled.end() && (*next)->row == first + r) {
        finish_row(**next++, p, ds, visible, lse);
      }
      if (backward) add_to_keys(p, ds, visible, q.data() + r * d, d_o.data() + r * d);
    }
  }

  // Converts scores to probabilities in place; returns the log-sum-exp.
  static double softmax(double* p, Keys visible, double sink) {
    double most = -std::numeric_limits<double>::infinity();
    if (visible.first == visible.last) return most;
    for (std::int64_t j = visible.first; j < visible.last; ++j) most = std::max(most, p[j]);
    most = std::max(most, sink);
    double sum = std::exp(sink - most);
    for (std::int64_t j = visible.first; j < visible.last; ++j) sum += p[j] = std::exp(p[j] - most);
    for (std::int64_t j = visible.first; j < visible.last; ++j) p[j] /= sum;
    return most + std::log(sum);
  }

  // Converts `ds` in place from the gradient of the dropped-out probabilities to the gradient of scale * q.k. With dP,
  // the gradient of the probabilities before dropout, this is P * (dP - sum(P * dP)) times the derivative of softcap.
  static void score_gradient(const double* p, double* ds, Keys visible, const double* keep_factor,
                             const double* slopes) {
    double delta = 0;
    for (std::int64_t j = visible.first; j < visible.last; ++j) delta += p[j] * (ds[j] *= keep_factor[j]);
    for (std::int64_t j = visible.first; j < visible.last; ++j) ds[j] = p[j] * (ds[j] - delta) * slopes[j];
  }

  void finish_row(Row& row, const double* p, const double* ds, Keys visible, double lse) const {
    const std::int64_t d = one.head_dim;
    row.lse = lse;
    row.o.assign(static_cast<std::size_t>(d), 0);
    row.dq.assign(static_cast<std::size_t>(d), 0);
    for (std::int64_t j = visible.first; j < visible.last; ++j) {
      for (std::int64_t c = 0; c < d; ++c) {
        row.o[static_cast<std::size_t>(c)] += p[j] * v[static_cast<std::size_t>(j * d + c)];
        if (ds) row.dq[static_cast<std::size_t>(c)] += scale * ds[j] * k[static_cast<std::size_t>(j * d + c)];
      }
    }
  }

  void add_to_keys(const double* p, const double* ds, Keys visible, const double* q_row, const double* d_o_row) {
    const std::lock_guard lock(mutex);
    for (Key* key : keys) {
      if (key->key < visible.first || key->key >= visible.last) continue;
      for (std::size_t c = 0; c < key->dk.size(); ++c) {
        key->dk[c] += scale * ds[key->key] * q_row[c];
        key->dv[c] += p[key->key] * d_o_row[c];
      }
    }
  }
};

void Gate::compute_head(const blas::BlasSession& session, const Inputs& inputs, std::int64_t batch,
                        std::int64_t kv_head) {
  const std::int64_t group = case_.heads / case_.kv_heads;
  Head head{.library = session.library(),
            .one = case_,
            .inputs = inputs,
            .batch = batch,
            .k = widen(inputs.attention.k, batch, kv_head, 0, case_.seqlen_k),
            .v = widen(inputs.attention.v, batch, kv_head, 0, case_.seqlen_k),
            .keys = {},
            .scale = 1 / std::sqrt(static_cast<double>(case_.head_dim)),
            .mutex = {}};
  for (Key& key : keys_) {
    if (key.batch == batch && key.kv_head == kv_head) head.keys.push_back(&key);
  }
  const std::int64_t blocks = ceil_div(case_.seqlen_q, kBlockRows);
  parallel_for(session.callers(), group * blocks, [&](int, std::int64_t task) {
    const std::int64_t hq = kv_head * group + task / blocks;
    const std::int64_t first = task % blocks * kBlockRows;
    const std::int64_t count = std::min(kBlockRows, case_.seqlen_q - first);
    std::vector<Row*> sampled;
    for (Row& row : rows_) {
      if (row.batch == batch && row.head == hq && row.row >= first && row.row < first + count) sampled.push_back(&row);
    }
    const auto sees_a_row = [&](const Key* key) {
      const RowRange rows = attending_rows(case_, batch, key->key);
      return rows.first < first + count && rows.last > first;
    };
    const bool needed =
        !sampled.empty() || (has_backward(case_.passes) && std::any_of(head.keys.begin(), head.keys.end(), sees_a_row));
    if (needed) head.compute(hq, first, count, sampled);
  });
}

Gate::Gate(const AttentionCase& one, const Inputs& inputs) : case_(one) {
  if (one.batch == 0 || one.kv_heads == 0 || one.seqlen_q == 0 || one.seqlen_k == 0) return;
  const std::int64_t group = one.heads / one.kv_heads;
  std::set<std::pair<std::int64_t, std::int64_t>> heads{{0, 0}, {one.batch - 1, one.kv_heads - 1}};
  const std::vector<double> zeros(static_cast<std::size_t>(one.head_dim));
  for (const auto& [batch, kv_head] : heads) {
    for (std::int64_t g = 0; g < group; ++g) {
      for (const std::int64_t row : sample_positions(one.seqlen_q, group > 1 ? 6 : 12)) {
        rows_.push_back({batch, kv_head * group + g, row, {}, {}, 0});
      }
    }
    if (!has_backward(one.passes)) continue;
    for (const std::int64_t key : sample_positions(one.seqlen_k, 8))
      keys_.push_back({batch, kv_head, key, zeros, zeros});
  }
  const blas::BlasSession session(one.threads);
  for (const auto& [batch, kv_head] : heads) compute_head(session, inputs, batch, kv_head);
}

GateResult Gate::check(const Results& results) const {
  GateResult result;
  const auto row_meter = [&](const ConstView& view, auto member) {
    Meter meter;
    for (const Row& row : rows_) {
      const std::vector<double> got = widen(view, row.batch, row.head, row.row, 1);
      for (std::size_t c = 0; c < got.size(); ++c) meter.add(got[c], (row.*member)[c]);
    }
    return meter;
  };
  const auto key_meter = [&](const ConstView& view, auto member) {
    Meter meter;
    for (const Key& key : keys_) {
      const std::vector<double> got = widen(view, key.batch, key.kv_head, key.key, 1);
      for (std::size_t c = 0; c < got.size(); ++c) meter.add(got[c], (key.*member)[c]);
    }
    return meter;
  };
  const auto add = [&](const char* name, const Meter& meter, DType dtype) {
    result.comparisons.push_back(meter.comparison(name, dtype, case_.tf32));
  };
  add("O", row_meter(results.o, &Row::o), case_.dtype);
  if (results.lse) {
    Meter meter;
    for (const Row& row : rows_) {
      meter.add(results.lse[(row.batch * case_.heads + row.head) * case_.seqlen_q + row.row], row.lse);
    }
    add("LSE", meter, case_.dtype);
  }
  if (has_backward(case_.passes)) {
    add("dQ", row_meter(results.dq, &Row::dq), case_.dtype);
    add("dK", key_meter(results.dk, &Key::dk), case_.dtype);
    add("dV", key_meter(results.dv, &Key::dv), case_.dtype);
  }
  for (const Comparison& comparison : result.comparisons) {
    if (comparison.error <= comparison.limit) continue;
    result.fault = fmt::format("{} differs from the float64 reference by {:.3g}; tolerance {:.3g}", comparison.tensor,
                               comparison.error, comparison.limit);
    return result;
  }
  const std::pair<const char*, ConstView> tensors[] = {{"O", results.o},         {"dQ", results.dq},
                                                       {"dK", results.dk},       {"dV", results.dv},
                                                       {"dbias", results.dbias}, {"dsinks", results.dsinks}};
  for (const auto& [name, view] : tensors) {
    if (view && result.fault.empty()) result.fault = find_nan(name, view, case_.threads);
  }
  return result;
}

}  // namespace strobe::bench
