// Compares core/statistics with values computed by hand and with tables of the binomial distribution.
#include "core/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace strobe {
namespace {

TEST(Statistics, KnownValues) {
  const std::vector<double> samples = {4, 1, 3, 2, 10};
  const Summary summary = summarize(samples);
  EXPECT_EQ(summary.n, 5u);
  EXPECT_DOUBLE_EQ(summary.mean, 4);
  EXPECT_DOUBLE_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.max, 10);
  EXPECT_DOUBLE_EQ(summary.stddev, std::sqrt(12.5));  // squares 9 + 4 + 1 + 0 + 36 over 4
  EXPECT_DOUBLE_EQ(summary.spread, (4.0 - 2.0) / 3.0);
}

TEST(Statistics, AnEvenCountAveragesTheTwoMiddleValues) {
  EXPECT_DOUBLE_EQ(summarize(std::vector<double>{4, 1, 2, 3}).median, 2.5);
}

TEST(Statistics, EmptyAndSingle) {
  EXPECT_EQ(summarize({}).n, 0u);
  const Summary one = summarize(std::vector<double>{2});
  EXPECT_DOUBLE_EQ(one.median, 2);
  EXPECT_DOUBLE_EQ(one.stddev, 0);
  EXPECT_DOUBLE_EQ(one.confidence, 0);  // one sample gives no interval of the median
}

TEST(Statistics, Quantiles) {
  const std::vector<double> sorted = {0, 10, 20, 30};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0), 0);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1), 30);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 7.5);
}

// Ranks of the 95 % interval of the median from published tables: n = 6: 1..6, 10: 2..9, 20: 6..15, 30: 10..21, 100:
// 40..61.
TEST(Statistics, MedianIntervalRanks) {
  const struct {
    std::size_t n, low, high;
    double confidence;
  } table[] = {{6, 1, 6, 0.9688}, {10, 2, 9, 0.9785}, {20, 6, 15, 0.9586}, {30, 10, 21, 0.9572}, {100, 40, 61, 0.9648}};
  for (const auto& row : table) {
    std::vector<double> samples(row.n);
    std::iota(samples.begin(), samples.end(), 1);
    const Summary summary = summarize(samples);
    EXPECT_EQ(summary.low, static_cast<double>(row.low)) << row.n;
    EXPECT_EQ(summary.high, static_cast<double>(row.high)) << row.n;
    EXPECT_NEAR(summary.confidence, row.confidence, 1e-4) << row.n;
  }
}

TEST(Statistics, FewSamplesReportTheirLowConfidence) {
  const Summary summary = summarize(std::vector<double>{1, 2, 3});
  EXPECT_DOUBLE_EQ(summary.low, 1);
  EXPECT_DOUBLE_EQ(summary.high, 3);
  EXPECT_DOUBLE_EQ(summary.confidence, 0.75);
}

TEST(Statistics, RelativeHalfWidth) {
  Summary summary;
  summary.median = 10;
  summary.low = 9.9;
  summary.high = 10.3;
  EXPECT_NEAR(summary.relative_half_width(), 0.02, 1e-12);
}

}  // namespace
}  // namespace strobe
