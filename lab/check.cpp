// Computes attention in float64 by its definition, row by row, on all cores.
#include "lab/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/host/thread_pool.h"

namespace strobe::lab {
namespace {

// Computes row `row` of [batch * rows] into out [dim].
void answer_row(const RungProblem& problem, std::int64_t row, double* out) {
  const int n = problem.rows, d = problem.dim;
  const std::int64_t begin = row / n * n * d;
  const float* q = problem.q + row * d;
  std::vector<double> scores(static_cast<std::size_t>(n));
  for (int j = 0; j < n; ++j) {
    const float* k = problem.k + begin + std::int64_t{j} * d;
    double sum = 0;
    for (int c = 0; c < d; ++c) sum += static_cast<double>(q[c]) * k[c];
    scores[static_cast<std::size_t>(j)] = sum / std::sqrt(static_cast<double>(d));
  }
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  std::fill(out, out + d, 0.0);
  for (int j = 0; j < n; ++j) {
    const double p = std::exp(scores[static_cast<std::size_t>(j)] - highest);
    const float* v = problem.v + begin + std::int64_t{j} * d;
    total += p;
    for (int c = 0; c < d; ++c) out[c] += p * v[c];
  }
  for (int c = 0; c < d; ++c) out[c] /= total;
}

}  // namespace

Answer::Answer(const RungProblem& problem, double most_flops) : dim_(problem.dim) {
  const std::int64_t all = std::int64_t{problem.batch} * problem.rows;
  const double flops_per_row = 4.0 * problem.rows * problem.dim;
  const std::int64_t count =
      std::min(all, std::max(std::int64_t{2}, static_cast<std::int64_t>(most_flops / flops_per_row)));
  for (std::int64_t i = 0; i < count; ++i) {
    rows_.push_back(count == 1 ? 0
                               : static_cast<std::int64_t>(static_cast<double>(i) * static_cast<double>(all - 1) /
                                                           static_cast<double>(count - 1)));
  }
  values_.resize(rows_.size() * static_cast<std::size_t>(dim_));
  parallel_for(available_cores(), count, [&](int, std::int64_t i) {
    answer_row(problem, rows_[static_cast<std::size_t>(i)], values_.data() + i * dim_);
  });
}

double Answer::largest_error(const float* o) const {
  double largest = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    for (int c = 0; c < dim_; ++c) {
      const double error =
          std::abs(o[rows_[i] * dim_ + c] - values_[i * static_cast<std::size_t>(dim_) + static_cast<std::size_t>(c)]);
      if (!(error <= largest)) largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    }
  }
  return largest;
}

}  // namespace strobe::lab
