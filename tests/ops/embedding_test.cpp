// Tests the embedding lookup and its gradient.
#include "ops/embedding.h"

#include <gtest/gtest.h>

#include "ops/differences.h"
#include "ops/linear.h"
#include "ops/tensors.h"

namespace strobe::ops {
namespace {

TEST(Embedding, GathersRowsAndAddsGradientsOfRepeatedTokens) {
  const std::int32_t token[] = {2, 0, 2};
  const float table[] = {1, 2, 3, 4, 5, 6};  // three rows of width 2
  const Embedding shape{.tokens = 3, .vocabulary = 3, .width = 2};
  float y[6];
  embedding({}, shape, token, table, y);
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{5, 6, 1, 2, 5, 6}));
  const float dy[] = {1, 10, 100, 1000, 2, 20};
  float dtable[6] = {0, 0, 7, 7, 0, 0.5f};
  embedding_backward({}, shape, token, dy, dtable);
  EXPECT_EQ(std::vector<float>(dtable, dtable + 6), (std::vector<float>{100, 1000, 7, 7, 3, 30.5f}));
}

TEST(Embedding, GradientsByFiniteDifferences) {
  const std::int32_t token[] = {2, 0, 2, 1, 2, 3};  // two sequences of three tokens
  const Embedding shape{.tokens = 6, .vocabulary = 5, .width = 4};
  const std::vector<float> table = whole_values(5 * 4, 1), positions = whole_values(3 * 4, 2),
                           dy = whole_values(6 * 4, 3);
  const auto loss = [&](const std::vector<float>& table, const std::vector<float>& positions) {
    std::vector<float> y(dy.size());
    embedding({}, shape, token, table.data(), y.data(), {.table = positions.data(), .context = 3});
    return dot(dy, y);
  };
  std::vector<float> dtable(table.size(), 9), dpositions(positions.size());
  embedding_backward({}, shape, token, dy.data(), dtable.data(), Into::set);
  column_sums({}, {.rows = 2, .columns = 3 * 4}, dy.data(), dpositions.data(), Into::set);
  expect_linear_gradient("table", table, dtable, [&](const auto& at) { return loss(at, positions); });
  expect_linear_gradient("positions", positions, dpositions, [&](const auto& at) { return loss(table, at); });
}

TEST(Embedding, PositionsRestartInEverySequence) {
  const std::int32_t token[] = {1, 0, 0, 1};
  const float table[] = {1, 2, 3, 4}, positions[] = {10, 20, 100, 200};  // two rows of width 2 each
  float y[8];
  embedding({}, {.tokens = 4, .vocabulary = 2, .width = 2}, token, table, y, {.table = positions, .context = 2});
  EXPECT_EQ(std::vector<float>(y, y + 8), (std::vector<float>{13, 24, 101, 202, 11, 22, 103, 204}));
}

TEST(Embedding, SameBitsForAnyNumberOfThreads) {
  const std::int64_t tokens = 300, width = 200, vocabulary = 5;
  std::vector<std::int32_t> token(tokens);
  for (std::size_t t = 0; t < token.size(); ++t) token[t] = static_cast<std::int32_t>(t * 7 % 5);
  for (const DType dtype : kTypes) {
    const Embedding shape{.tokens = tokens, .vocabulary = vocabulary, .width = width, .dtype = dtype};
    const Values dy(dtype, normal_values(tokens * width, 1));
    std::vector<float> one(vocabulary * width), three(vocabulary * width);
    embedding_backward({.threads = 1}, shape, token.data(), dy.data(), one.data());
    embedding_backward({.threads = 3}, shape, token.data(), dy.data(), three.data());
    EXPECT_EQ(one, three);
    double sum = 0, expected = 0;
    for (const float value : one) sum += value;
    for (std::size_t i = 0; i < dy.size(); ++i) expected += dy[i];
    EXPECT_NEAR(sum, expected, 1e-2);
  }
}

}  // namespace
}  // namespace strobe::ops
