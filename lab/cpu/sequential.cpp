// Rung `sequential`: one thread, 32 x 32 tiles, and the loop order of the first FlashAttention. Keys are in the outer
// loop, rows in the inner one.
//
// A tile of K and V is loaded once and used with every tile of Q. The running maximum m, sum l and output O of a row
// are therefore in memory. For every tile of keys they are loaded, updated and stored. O is always normalised: after
// each tile, O is the attention output over the keys so far. The five steps are functions; rung `five-kernels` launches
// them as kernels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/clock.h"
#include "lab/cpu/runs.h"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;

struct Tile {
  int rows, keys, dim;       // rows, keys <= kTile; the last tiles may be smaller
  float s[kTile][kTile];     // scores, then probabilities
  float m[kTile], l[kTile];  // maximum and sum of each row within this tile
};

// 1. S = Q K^T / sqrt(dim)
void scale_scores(Tile& tile, const float* q, const float* k) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(tile.dim));
  for (int i = 0; i < tile.rows; ++i) {
    for (int j = 0; j < tile.keys; ++j) {
      float sum = 0;
      for (int c = 0; c < tile.dim; ++c) sum += q[i * tile.dim + c] * k[j * tile.dim + c];
      tile.s[i][j] = sum * scale;
    }
  }
}

// 2. m_i = max_j S_ij
void row_max(Tile& tile) {
  for (int i = 0; i < tile.rows; ++i) tile.m[i] = *std::max_element(tile.s[i], tile.s[i] + tile.keys);
}

// 3. P_ij = exp(S_ij - m_i), overwriting S
void exponentiate(Tile& tile) {
  for (int i = 0; i < tile.rows; ++i) {
    for (int j = 0; j < tile.keys; ++j) tile.s[i][j] = std::exp(tile.s[i][j] - tile.m[i]);
  }
}

// 4. l_i = sum_j P_ij
void row_sum(Tile& tile) {
  for (int i = 0; i < tile.rows; ++i) {
    tile.l[i] = 0;
    for (int j = 0; j < tile.keys; ++j) tile.l[i] += tile.s[i][j];
  }
}

// 5. Updates the running m, l and O with this tile.
void update(const Tile& tile, const float* v, float* m, float* l, float* o) {
  for (int i = 0; i < tile.rows; ++i) {
    const float highest = std::max(m[i], tile.m[i]);
    const float before = l[i] * std::exp(m[i] - highest), now = std::exp(tile.m[i] - highest);
    const float sum = before + now * tile.l[i];
    for (int c = 0; c < tile.dim; ++c) {
      float pv = 0;
      for (int j = 0; j < tile.keys; ++j) pv += tile.s[i][j] * v[j * tile.dim + c];
      o[i * tile.dim + c] = (before * o[i * tile.dim + c] + now * pv) / sum;
    }
    m[i] = highest;
    l[i] = sum;
  }
}

}  // namespace

Split run_sequential(const RungProblem& problem, float* o) {
  const double start = now_seconds();
  const int n = problem.rows, d = problem.dim;
  std::vector<float> m(static_cast<std::size_t>(n)), l(m.size());
  std::fill(o, o + problem.elements(), 0.0f);
  for (int b = 0; b < problem.batch; ++b) {
    const std::int64_t begin = std::int64_t{b} * n * d;
    std::fill(m.begin(), m.end(), -std::numeric_limits<float>::infinity());
    std::fill(l.begin(), l.end(), 0.0f);
    for (int j = 0; j < n; j += kTile) {
      for (int i = 0; i < n; i += kTile) {
        Tile tile{.rows = std::min(kTile, n - i), .keys = std::min(kTile, n - j), .dim = d, .s = {}, .m = {}, .l = {}};
        scale_scores(tile, problem.q + begin + std::int64_t{i} * d, problem.k + begin + std::int64_t{j} * d);
        row_max(tile);
        exponentiate(tile);
        row_sum(tile);
        update(tile, problem.v + begin + std::int64_t{j} * d, &m[static_cast<std::size_t>(i)],
               &l[static_cast<std::size_t>(i)], o + begin + std::int64_t{i} * d);
      }
    }
  }
  const double seconds = now_seconds() - start;
  return {.total = seconds, .kernel = seconds};
}

}  // namespace strobe::lab
