// Tiled attention in float64. A task computes up to 256 rows (a stripe) of one batch. It visits the keys in blocks of
// 256 with online softmax, for 4 rows at a time:
//   S [4 rows][keys] = Q [4][d] K^T [d][keys];  P = exp(S - max);  O [4][d] += P [4][keys] V [keys][d]
// multiply_add() computes both matmuls in tiles of 4 rows x 8 columns, whose accumulators stay in registers.
#include "solve/case_files.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/divide.h"
#include "device/host/thread_pool.h"

namespace strobe::solve {
namespace {

constexpr std::int64_t kRows = 4;      // rows per tile
constexpr std::int64_t kCols = 8;      // columns per tile: four 128-bit vectors
constexpr std::int64_t kStripe = 256;  // rows per task
constexpr std::int64_t kKeys = 256;    // keys per block

using Pair = double __attribute__((vector_size(16), aligned(8)));

// Computes c [4][cols] += a [4][inner] b [inner][cols]. `cols` is a multiple of 8, and b is packed in panels: [cols /
// 8][inner][8].
void multiply_add(const double* a, std::int64_t lda, const double* b, std::int64_t cols, std::int64_t inner, double* c,
                  std::int64_t ldc) {
  for (std::int64_t col = 0; col < cols; col += kCols) {
    Pair sums[kRows][kCols / 2] = {};
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto* right = reinterpret_cast<const Pair*>(b + col * inner + i * kCols);
#pragma GCC unroll 4
      for (std::int64_t r = 0; r < kRows; ++r) {
        const double left = a[r * lda + i];
#pragma GCC unroll 4
        for (std::int64_t v = 0; v < kCols / 2; ++v) sums[r][v] += left * right[v];
      }
    }
    for (std::int64_t r = 0; r < kRows; ++r) {
      auto* to = reinterpret_cast<Pair*>(c + r * ldc + col);
      for (std::int64_t v = 0; v < kCols / 2; ++v) to[v] += sums[r][v];
    }
  }
}

// Returns exp(x) for x <= 0 with a relative error of about 1e-15; 0 below -700. Branch-free, so loops over it
// vectorize.
inline double exp_negative(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, which is then in the low mantissa bits
  constexpr double kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
  const double shifted = std::max(x, -700.0) * 1.4426950408889634 + kRound;
  const double n = shifted - kRound;
  const double r = (std::max(x, -700.0) - n * kLn2High) - n * kLn2Low;  // |r| <= ln 2 / 2
  double sum = 1.0 / 479001600;                                         // Taylor series up to r^12
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const std::int64_t power = (std::bit_cast<std::int64_t>(shifted) << 52) + std::bit_cast<std::int64_t>(1.0);
  return x < -700.0 ? 0.0 : sum * std::bit_cast<double>(power);
}

// Buffers of one thread.
struct Buffers {
  std::vector<double> q, k, v, scores, o, max, sum;

  explicit Buffers(std::int64_t d) {
    const auto padded_d = static_cast<std::size_t>(round_up(d, kCols));
    q.resize(kStripe * static_cast<std::size_t>(d));
    k.resize(static_cast<std::size_t>(d) * kKeys);  // K^T [d][kKeys] in panels
    v.resize(kKeys * padded_d);                     // [kKeys][padded_d] in panels
    scores.resize(kRows * kKeys);
    o.resize(kStripe * padded_d);
    max.resize(kStripe);
    sum.resize(kStripe);
  }
};

// Packs `keys` rows of row-major K and V into the panels of a block. All other elements of the panels are zero.
void pack(Buffers& buffers, const float* k, const float* v, std::int64_t keys, std::int64_t d) {
  std::fill(buffers.k.begin(), buffers.k.end(), 0.0);
  std::fill(buffers.v.begin(), buffers.v.end(), 0.0);
  for (std::int64_t j = 0; j < keys; ++j) {
    for (std::int64_t c = 0; c < d; ++c) {
      buffers.k[static_cast<std::size_t>((j / kCols * d + c) * kCols + j % kCols)] = k[j * d + c];
      buffers.v[static_cast<std::size_t>((c / kCols * kKeys + j) * kCols + c % kCols)] = v[j * d + c];
    }
  }
}

// Online softmax of one row and block of keys. Replaces each score by exp(score * scale - max) with the new maximum.
// Rescales `sum` and `o` if the maximum has grown.
void online_softmax(double* scores, std::int64_t keys, double scale, double& max, double& sum, double* o,
                    std::int64_t padded_d) {
  double largest = max;
  for (std::int64_t j = 0; j < keys; ++j) {
    scores[j] *= scale;
    largest = std::max(largest, scores[j]);
  }
  if (largest > max) {
    const double factor = exp_negative(max - largest);  // 0 at the first block, where max is minus infinity
    sum *= factor;
    for (std::int64_t c = 0; c < padded_d; ++c) o[c] *= factor;
    max = largest;
  }
  for (std::int64_t j = 0; j < keys; ++j) scores[j] = exp_negative(scores[j] - largest);
  for (std::int64_t j = 0; j < keys; ++j) sum += scores[j];
  std::fill(scores + keys, scores + kKeys, 0.0);
}

// Computes output rows [begin, begin + rows) of one batch.
void stripe(Buffers& buffers, const ProblemSize& size, const float* inputs, std::int64_t begin, std::int64_t rows,
            float* outputs) {
  const std::int64_t d = size.dim, padded_d = round_up(d, kCols);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  std::fill(buffers.q.begin(), buffers.q.end(), 0.0);
  std::copy(inputs + begin * d, inputs + (begin + rows) * d, buffers.q.begin());
  std::fill(buffers.o.begin(), buffers.o.end(), 0.0);
  std::fill(buffers.sum.begin(), buffers.sum.end(), 0.0);
  std::fill(buffers.max.begin(), buffers.max.end(), -std::numeric_limits<double>::infinity());
  for (std::int64_t key = 0; key < size.rows; key += kKeys) {
    const std::int64_t keys = std::min(kKeys, size.rows - key);
    const float* k = inputs + size.elements() + key * d;
    pack(buffers, k, k + size.elements(), keys, d);
    for (std::int64_t row = 0; row < rows; row += kRows) {
      double* o = buffers.o.data() + row * padded_d;
      std::fill(buffers.scores.begin(), buffers.scores.end(), 0.0);
      multiply_add(buffers.q.data() + row * d, d, buffers.k.data(), kKeys, d, buffers.scores.data(), kKeys);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto at = static_cast<std::size_t>(row + r);
        online_softmax(buffers.scores.data() + r * kKeys, keys, scale, buffers.max[at], buffers.sum[at],
                       o + r * padded_d, padded_d);
      }
      multiply_add(buffers.scores.data(), kKeys, buffers.v.data(), padded_d, kKeys, o, padded_d);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < d; ++c) {
      outputs[(begin + row) * d + c] = static_cast<float>(buffers.o[static_cast<std::size_t>(row * padded_d + c)] /
                                                          buffers.sum[static_cast<std::size_t>(row)]);
    }
  }
}

}  // namespace

void float64_forward(const ProblemSize& size, const float* inputs, float* outputs) {
  const std::int64_t stripes = ceil_div(size.rows, kStripe);
  const int threads = available_cores();
  std::vector<Buffers> all_buffers(static_cast<std::size_t>(threads), Buffers(size.dim));
  parallel_for(threads, size.batch * stripes, [&](int thread, std::int64_t task) {
    const std::int64_t batch = task / stripes, begin = task % stripes * kStripe;
    stripe(all_buffers[static_cast<std::size_t>(thread)], size, inputs + batch * 3 * size.elements(), begin,
           std::min(kStripe, size.rows - begin), outputs + batch * size.elements());
  });
}

}  // namespace strobe::solve
