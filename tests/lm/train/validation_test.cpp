// Tests the validation loss, and the windows over which it is computed.
#include "lm/train/validation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "core/philox.h"
#include "lm/cases.h"
#include "lm/models/decoder.h"
#include "lm/train/trainer.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

TEST(SpreadWindows, PredictsEachTokenOnceIfTheBudgetAllows) {
  for (const std::int64_t tokens : {2, 5, 6, 7, 11, 101}) {
    for (const std::int64_t budget : {std::int64_t{0}, tokens - 1, tokens + 50}) {
      const SpreadWindows windows(tokens, 5, budget);
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < windows.count(); ++i) {
        EXPECT_EQ(windows.first(i), next);
        next += windows.length(i);
      }
      EXPECT_EQ(next, tokens - 1) << tokens;
    }
  }
}

TEST(SpreadWindows, AreSpreadThroughTheWholeFile) {
  constexpr std::int64_t kTokens = 10'001, kContext = 10;
  const SpreadWindows windows(kTokens, kContext, 100);
  ASSERT_EQ(windows.count(), 10);
  for (std::int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(windows.first(i), 1000 * i + 500);
    EXPECT_EQ(windows.length(i), kContext);
  }
  EXPECT_EQ(SpreadWindows(kTokens, kContext, 1).count(), 1) << "at least one window";
  const SpreadWindows most(kTokens - 3, kContext, 9'995);  // 999 of 1000 windows; the last of the 1000 is shorter
  std::set<std::int64_t> firsts;
  for (std::int64_t i = 0; i < most.count(); ++i) {
    EXPECT_GT(most.length(i), 0);
    EXPECT_LE(most.first(i) + most.length(i), kTokens - 4);
    firsts.insert(most.first(i));
  }
  EXPECT_EQ(firsts.size(), 999u);
}

TEST(Validation, HasPerplexityAndBits) {
  const Validation result{.loss = std::log(8.0)};
  EXPECT_DOUBLE_EQ(result.perplexity(), 8);
  EXPECT_DOUBLE_EQ(result.bits(), 3);
}

// 52 predicted tokens are seven windows of 7 and one of 3. In batches of three windows, the last batch has two.
void expect_the_decoders_mean(Architecture architecture) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "a.txt").string();
  std::string text;
  for (std::uint32_t i = 0; i < 53; ++i) text += static_cast<char>(philox({i, 0, 0, 0}, 3)[0] % 19);
  std::ofstream(path, std::ios::binary) << text;
  const TokenFile data(path, DataFormat::text, "--data");
  Settings settings;
  settings.shape =
      as(architecture, {.d_model = 16, .d_ff = 24, .layers = 2, .heads = 2, .vocabulary = 19, .context = 7});
  settings.batch = 3;
  settings.data = identity_of(data);
  Trainer trainer(settings, data, 1);
  trainer.begin();
  Decoder decoder(settings.shape, trainer.model().values(), 1);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (i % 7 == 0) decoder.restart();
    sum += cross_entropy(decoder.append(text[i]), text[i + 1]);
  }
  const Validation result = trainer.validate(data, 0);
  EXPECT_EQ(result.tokens, 52);
  EXPECT_EQ(result.of, 52);
  EXPECT_NEAR(result.loss, sum / 52, 1e-5);
  const Validation part = trainer.validate(data, 14);
  EXPECT_EQ(part.tokens, 14);
  EXPECT_EQ(part.of, 52);
}

TEST(Validation, IsTheMeanOverTheWholeFile) {
  for (const Architecture architecture : kArchitectures) expect_the_decoders_mean(architecture);
}

}  // namespace
}  // namespace strobe::lm
