// Attention as a person writes it first, one head at a time: product, softmax over materialised scores, product; and
// its backward, tensor by tensor. Inputs are widened to fp32 for OpenBLAS; scores, weights and their gradients are
// rounded to the problem's type after each operation, as the same lines would in a tensor library.
#include "attention/standard/standard.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "attention/standard/rows.h"
#include "core/divide.h"
#include "core/philox.h"
#include "device/host/blas.h"
#include "device/host/parts.h"
#include "device/host/thread_pool.h"

namespace strobe {
namespace {

using namespace standard;
using namespace blas;

// Offsets into the workspace, in floats, each a multiple of 16 (64 bytes).
struct Layout {
  std::int64_t q, k, v, o, d_o, dk, dv, lse, sinks;  // of one head: rows x head dimension, or rows
  std::int64_t scores, d_scores, slopes, dropped;    // of one head: Sq x Sk
  std::int64_t total;
};

Layout layout_of(const Problem& problem) {
  std::int64_t end = 0;
  const auto take = [&end](std::int64_t count) {
    const std::int64_t begin = end;
    end += (count + 15) / 16 * 16;
    return begin;
  };
  const bool backward = problem.pass == Pass::backward;
  const std::int64_t rows = problem.max_q;
  const std::int64_t keys = problem.max_k;
  const std::int64_t pairs = rows * keys;
  Layout layout{};
  layout.q = take(rows * problem.d);
  layout.k = take(keys * problem.d);
  layout.v = take(keys * problem.dv);
  layout.o = take(rows * (backward ? problem.d : problem.dv));  // O, or dQ
  layout.d_o = take(backward ? rows * problem.dv : 0);
  layout.dk = take(backward ? keys * problem.d : 0);
  layout.dv = take(backward ? keys * problem.dv : 0);
  layout.lse = take(rows);
  layout.sinks = take(backward ? rows : 0);
  layout.scores = take(pairs);
  layout.d_scores = take(backward ? pairs : 0);
  layout.slopes = take(backward && problem.softcap != 0 ? pairs : 0);
  layout.dropped = take(backward && problem.dropout.p != 0 ? pairs : 0);
  layout.total = end;
  return layout;
}

void product(const char* name, const BlasSession& session, const Matrix& a, const Matrix& b, float* c,
             Accumulate accumulate = Accumulate::no) {
  const Part part(name, PartKind::product);
  multiply(session, a, b, c, accumulate);
}

// body(i) for rows of `cols` elements, several rows a task.
template <class Body>
void for_rows(int threads, std::int64_t rows, std::int64_t cols, Body&& body) {
  const std::int64_t chunk = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
  parallel_for(threads, ceil_div(rows, chunk), [&](int, std::int64_t task) {
    for (std::int64_t i = task * chunk; i < std::min(rows, (task + 1) * chunk); ++i) body(i);
  });
}

// `count` rows of the caller's tensor as fp32: in place where BLAS can read them so, else a copy in `buffer`.
Matrix load(int threads, const ConstView& view, const Rows& rows, std::int64_t count, std::int64_t cols,
            float* buffer) {
  if (view.dtype == DType::fp32 && view.stride[3] == 1 && view.stride[2] >= cols && view.stride[2] <= INT_MAX) {
    return {reinterpret_cast<const float*>(rows.data), count, cols, view.stride[2]};
  }
  const Part part("copies");
  for_rows(threads, count, cols,
           [&](std::int64_t i) { widen_row(view.dtype, rows[i], view.stride[3], cols, buffer + i * cols); });
  return matrix(buffer, count, cols);
}

// Rows of a contiguous fp32 matrix to the caller's tensor; rows from `count` on, to the end of a padded one, are zeros.
void store(const Problem& problem, const View& view, std::int64_t b, std::int64_t h, std::int64_t begin,
           std::int64_t count, const float* from) {
  const std::int64_t cols = view.shape[3];
  const std::int64_t written = problem.packed ? count : view.shape[2];
  const Part part("copies");
  for_rows(problem.threads, written, cols, [&](std::int64_t i) {
    char* to = const_cast<char*>(problem.rows(view, b, h, begin + i).data);
    if (i < count) {
      narrow_row(view.dtype, from + i * cols, cols, to);
    } else {
      std::fill_n(to, static_cast<std::size_t>(cols) * size_of(view.dtype), char{0});
    }
  });
}

// One query head of one sequence, with its tensors as fp32 matrices.
struct Head {
  const BlasSession& blas;
  const Problem& problem;
  const Layout layout;
  float* workspace;
  std::int64_t b, hq;
  Extent extent;
  Matrix q{}, k{}, v{}, d_o{};

  std::int64_t rows() const { return extent.q_length; }
  std::int64_t keys() const { return extent.k_length; }
  Interval allowed(std::int64_t i) const {
    const Interval keys = problem.allowed(extent, i);
    return keys.lo < keys.hi ? keys : Interval{0, 0};  // an empty one may lie past the last key
  }
  float* scores() const { return workspace + layout.scores; }      // [rows][keys]; after softmax: weights
  float* d_scores() const { return workspace + layout.d_scores; }  // [rows][keys]
  float* slopes() const { return problem.softcap != 0 ? workspace + layout.slopes : nullptr; }
  float* dropped() const { return problem.dropout.p != 0 ? workspace + layout.dropped : nullptr; }
};

// q.k to logits for the keys of one row: the options in the order of the specification.
void apply_options(const Head& head, std::int64_t i, Interval keys, float* row, float* slopes) {
  const Problem& problem = head.problem;
  const std::int64_t n = keys.hi - keys.lo;
  for (std::int64_t j = 0; j < n; ++j) row[j] *= problem.scale;
  round_row(problem.dtype, row, n);
  if (problem.softcap != 0) {
    for (std::int64_t j = 0; j < n; ++j) row[j] = std::tanh(row[j] / problem.softcap);
    round_row(problem.dtype, row, n);
    for (std::int64_t j = 0; j < n && slopes; ++j) slopes[j] = 1 - row[j] * row[j];
    for (std::int64_t j = 0; j < n; ++j) row[j] *= problem.softcap;
    round_row(problem.dtype, row, n);
  }
  if (problem.alibi_slopes) {
    const float slope = problem.alibi_slopes[head.hq];
    const std::int64_t diagonal = i + problem.offset(head.extent) - keys.lo;
    for (std::int64_t j = 0; j < n; ++j) row[j] -= slope * static_cast<float>(std::abs(diagonal - j));
    round_row(problem.dtype, row, n);
  }
  if (problem.has_bias) {
    const auto& stride = problem.bias.stride;
    const std::int64_t at = head.b * stride[0] + head.hq * stride[1] + i * stride[2] + keys.lo;
    const auto bytes = static_cast<std::int64_t>(size_of(problem.bias.dtype));
    add_bias(problem.bias.dtype, static_cast<const char*>(problem.bias.data) + at * bytes, n, row);
    round_row(problem.dtype, row, n);
  }
}

// Normalised weights of one row with dropout, from `weights` to `out` (which may be the same).
void apply_dropout(const Head& head, std::int64_t i, Interval keys, const float* weights, float* out) {
  const Dropout& dropout = head.problem.dropout;
  const std::uint32_t threshold = dropout_threshold(dropout.p);
  const float factor = 1 / (1 - dropout.p);
  for (std::int64_t j = keys.lo; j < keys.hi; ++j) {
    out[j] = dropout_keeps(dropout.seed, threshold, head.b, head.hq, i, j) ? weights[j] * factor : 0.0f;
  }
  round_row(head.problem.dtype, out + keys.lo, keys.hi - keys.lo);
}

// scores() = softmax(mask(options(Q K^T))), row by row; lse [rows] and, in backward, the weights of the sink [rows].
void weigh(const Head& head, float* lse, float* sinks) {
  const Problem& problem = head.problem;
  product("score product", head.blas, head.q, transposed(head.k), head.scores());
  const Part part("softmax");
  for_rows(problem.threads, head.rows(), head.keys(), [&](std::int64_t i) {
    const Interval keys = head.allowed(i);
    const std::int64_t n = keys.hi - keys.lo;
    float* row = head.scores() + i * head.keys();
    float* slopes = sinks && head.slopes() ? head.slopes() + i * head.keys() + keys.lo : nullptr;
    const float* sink = problem.sinks ? problem.sinks + head.hq : nullptr;
    std::fill(row, row + keys.lo, 0.0f);
    std::fill(row + keys.hi, row + head.keys(), 0.0f);
    apply_options(head, i, keys, row + keys.lo, slopes);
    const Softmax result = softmax_row(row + keys.lo, n, sink);
    round_row(problem.dtype, row + keys.lo, n);
    lse[i] = result.lse;
    if (sinks) sinks[i] = result.sink;
  });
}

void forward_head(const Head& head) {
  const Problem& problem = head.problem;
  float* lse = head.workspace + head.layout.lse;
  float* o = head.workspace + head.layout.o;
  weigh(head, lse, nullptr);
  if (problem.dropout.p != 0) {
    const Part part("dropout");
    for_rows(problem.threads, head.rows(), head.keys(), [&](std::int64_t i) {
      float* row = head.scores() + i * head.keys();
      apply_dropout(head, i, head.allowed(i), row, row);
    });
  }
  product("output product", head.blas, matrix(head.scores(), head.rows(), head.keys()), head.v, o);
  store(problem, problem.o, head.b, head.hq, head.extent.q_begin, head.rows(), o);
  if (!problem.lse) return;
  const std::int64_t written = problem.packed ? head.rows() : problem.max_q;
  float* out = problem.lse + problem.lse_index(head.b, head.hq, head.extent.q_begin, 0);
  std::copy_n(lse, head.rows(), out);
  std::fill(out + head.rows(), out + written, -kInfinity);
}

// d_scores() from the gradient of the dropped weights to that of the logits; sinks [rows] from weights to gradients.
void backward_softmax(const Head& head, float* sinks) {
  const Problem& problem = head.problem;
  const float factor = 1 / (1 - problem.dropout.p);
  for_rows(problem.threads, head.rows(), head.keys(), [&](std::int64_t i) {
    const Interval keys = head.allowed(i);
    const std::int64_t n = keys.hi - keys.lo;
    const std::int64_t first = i * head.keys();
    float* all = head.d_scores() + first;
    float* row = all + keys.lo;
    const float* weights = head.scores() + first + keys.lo;
    std::fill(all, row, 0.0f);
    std::fill(all + keys.hi, all + head.keys(), 0.0f);
    round_row(problem.dtype, row, n);
    if (const float* dropped = head.dropped()) {  // a weight that is 0 though kept has no gradient either
      dropped += first + keys.lo;
      for (std::int64_t j = 0; j < n; ++j) row[j] = dropped[j] == 0 ? 0.0f : row[j] * factor;
      round_row(problem.dtype, row, n);
    }
    const float delta = dot_of(weights, row, n);
    for (std::int64_t j = 0; j < n; ++j) row[j] = weights[j] * (row[j] - delta);
    round_row(problem.dtype, row, n);
    sinks[i] *= -delta;
  });
}

// dbias += d_scores(): a task owns some columns, since all rows may share one row of the bias.
void add_dbias(const Head& head) {
  const Problem& problem = head.problem;
  constexpr std::int64_t kColumns = 512;
  const auto& stride = problem.dbias.stride;
  float* dbias = static_cast<float*>(problem.dbias.data) + head.b * stride[0] + head.hq * stride[1];
  parallel_for(problem.threads, ceil_div(head.keys(), kColumns), [&](int, std::int64_t task) {
    for (std::int64_t i = 0; i < head.rows(); ++i) {
      const float* from = head.d_scores() + i * head.keys();
      float* to = dbias + i * stride[2];
      const std::int64_t end = std::min(head.keys(), (task + 1) * kColumns);
      for (std::int64_t j = task * kColumns; j < end; ++j) to[j] += from[j];
    }
  });
}

// d_scores() from logits to q.k: softcap, then the scale.
void backward_options(const Head& head) {
  const Problem& problem = head.problem;
  for_rows(problem.threads, head.rows(), head.keys(), [&](std::int64_t i) {
    const Interval keys = head.allowed(i);
    const std::int64_t n = keys.hi - keys.lo;
    float* row = head.d_scores() + i * head.keys() + keys.lo;
    if (const float* slopes = head.slopes()) {
      slopes += i * head.keys() + keys.lo;
      for (std::int64_t j = 0; j < n; ++j) row[j] *= slopes[j];
      round_row(problem.dtype, row, n);
    }
    for (std::int64_t j = 0; j < n; ++j) row[j] *= problem.scale;
    round_row(problem.dtype, row, n);
  });
}

void backward_head(const Head& head, Accumulate accumulate) {
  const Problem& problem = head.problem;
  const int threads = problem.threads;
  const std::int64_t rows = head.rows();
  const std::int64_t keys = head.keys();
  float* sinks = head.workspace + head.layout.sinks;
  float* dq = head.workspace + head.layout.o;
  float* weights = head.scores();
  weigh(head, head.workspace + head.layout.lse, sinks);
  if (float* dropped = head.dropped()) {
    const Part part("dropout");
    for_rows(threads, rows, keys, [&](std::int64_t i) {
      const std::int64_t first = i * keys;
      std::fill_n(dropped + first, keys, 0.0f);
      apply_dropout(head, i, head.allowed(i), head.scores() + first, dropped + first);
    });
    weights = dropped;
  }
  product("dV product", head.blas, transposed(matrix(weights, rows, keys)), head.d_o, head.workspace + head.layout.dv,
          accumulate);
  product("dP product", head.blas, head.d_o, transposed(head.v), head.d_scores());
  {
    const Part part("softmax gradient");
    backward_softmax(head, sinks);
    if (problem.dbias) add_dbias(head);
    for (std::int64_t i = 0; i < rows && problem.dsinks; ++i) problem.dsinks[head.hq] += sinks[i];
    backward_options(head);
  }
  const Matrix d_scores = matrix(head.d_scores(), rows, keys);
  product("dQ product", head.blas, d_scores, head.k, dq);
  product("dK product", head.blas, transposed(d_scores), head.q, head.workspace + head.layout.dk, accumulate);
  store(problem, problem.dq, head.b, head.hq, head.extent.q_begin, rows, dq);
}

void clear_sums(const Problem& problem) {
  if (problem.dsinks) std::fill_n(problem.dsinks, problem.heads_q, 0.0f);
  if (!problem.dbias) return;
  const auto& shape = problem.dbias.shape;
  const auto& stride = problem.dbias.stride;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
    const std::int64_t i = row % shape[2];
    const std::int64_t h = row / shape[2] % shape[1];
    const std::int64_t b = row / shape[2] / shape[1];
    float* to = static_cast<float*>(problem.dbias.data) + b * stride[0] + h * stride[1] + i * stride[2];
    std::fill_n(to, shape[3], 0.0f);
  }
}

void run(const Problem& problem, void* memory) {
  const BlasSession blas(problem.threads);
  const bool backward = problem.pass == Pass::backward;
  Head head{blas, problem, layout_of(problem), static_cast<float*>(memory), 0, 0, {}};
  const Layout& at = head.layout;
  const auto load_head = [&](const ConstView& view, std::int64_t h, std::int64_t begin, std::int64_t count,
                             std::int64_t buffer) {
    if (count == 0) return matrix(head.workspace + buffer, 0, view.shape[3]);
    return load(problem.threads, view, problem.rows(view, head.b, h, begin), count, view.shape[3],
                head.workspace + buffer);
  };
  if (backward) clear_sums(problem);
  for (std::int64_t unit = 0; unit < problem.batch * problem.heads_kv; ++unit) {
    const std::int64_t hkv = unit % problem.heads_kv;
    head.b = unit / problem.heads_kv;
    head.extent = problem.extent(head.b);
    const auto [q_begin, q_length, k_begin, k_length] = head.extent;
    head.k = load_head(problem.k, hkv, k_begin, k_length, at.k);
    head.v = load_head(problem.v, hkv, k_begin, k_length, at.v);
    for (std::int64_t g = 0; g < problem.group; ++g) {
      head.hq = hkv * problem.group + g;
      head.q = load_head(problem.q, head.hq, q_begin, q_length, at.q);
      if (backward) {
        head.d_o = load_head(problem.d_o, head.hq, q_begin, q_length, at.d_o);
        backward_head(head, g == 0 ? Accumulate::no : Accumulate::yes);
      } else {
        forward_head(head);
      }
    }
    if (!backward) continue;
    store(problem, problem.dk, head.b, hkv, k_begin, k_length, head.workspace + at.dk);
    store(problem, problem.dv_out, head.b, hkv, k_begin, k_length, head.workspace + at.dv);
  }
}

std::string refusal(const Problem& problem) {
  if (problem.max_q > INT_MAX || problem.max_k > INT_MAX) {
    return fmt::format("{} rows and {} keys: BLAS counts in 32 bits, up to {}", problem.max_q, problem.max_k, INT_MAX);
  }
  if (problem.max_q > 0 && problem.max_k > (std::int64_t{1} << 58) / problem.max_q) {
    return fmt::format("scores of {} rows x {} keys do not fit any memory", problem.max_q, problem.max_k);
  }
  return {};
}

std::string configuration(const Problem& problem) {
  const double bytes = 4.0 * static_cast<double>(problem.max_q) * static_cast<double>(problem.max_k);
  return fmt::format("OpenBLAS sgemm, scores of one head materialised: {:.1f} MiB", bytes / (1 << 20));
}

}  // namespace

const Kernel kStandardCpu = {
    .name = "standard",
    .device = Device::cpu,
    .refusal = refusal,
    .configuration = configuration,
    .workspace_bytes = [](const Problem& problem) { return static_cast<std::size_t>(layout_of(problem).total) * 4; },
    .run = run,
};

}  // namespace strobe
