// Tests the sampler: drawing a token from logits, and sampling beyond a full context.
#include "lm/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lm/model.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

constexpr std::array<float, 4> kLogits{1, 3, 2, 3};

std::array<double, 4> shares(const SampleOptions& options) {
  constexpr std::uint64_t kDraws = 20000;
  std::array<double, 4> found{};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    found[static_cast<std::size_t>(draw(kLogits, options, i))] += 1.0 / static_cast<double>(kDraws);
  }
  return found;
}

TEST(Draw, FollowsTheSoftmax) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::array<double, 4> wanted{};
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) sum += wanted[i] = std::exp(static_cast<double>(kLogits[i]) / temperature);
    const std::array<double, 4> found = shares({.temperature = temperature, .seed = 5});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i] / sum, 0.015);
  }
}

TEST(Draw, KeepsOnlyTheMostLikely) {
  const std::array<double, 4> two = shares({.top_k = 2});
  EXPECT_NEAR(two[1], 0.5, 0.015);
  EXPECT_NEAR(two[3], 0.5, 0.015);
  EXPECT_EQ(shares({.temperature = 0})[1], shares({.top_k = 1})[1]);  // both take the first of equal logits
  EXPECT_NEAR(shares({.temperature = 0})[1], 1, 1e-9);
  EXPECT_NEAR(shares({.top_k = 100})[0], shares({})[0], 1e-12);
}

TEST(Draw, RejectsNonFiniteLogits) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const SampleOptions& options : {SampleOptions{.temperature = 0}, SampleOptions{}, SampleOptions{.top_k = 2}}) {
      EXPECT_THROW(draw(std::array<float, 4>{1, bad, 2, 3}, options, 0), Error) << bad;
    }
  }
}

TEST(Sample, LongPromptsAreCutToTheirEnd) {
  const ModelShape shape{.d_model = 8, .d_ff = 12, .layers = 1, .heads = 2, .vocabulary = 19, .context = 6};
  Model model(shape, 1, DType::fp32, {.threads = 1});
  model.begin(1);
  Decoder decoder(shape, model.values(), 1);
  // The context of 6 tokens is full during the prompt of 8. Sampling then continues from the prompt's last 4 tokens.
  const std::vector<std::int32_t> prompt{3, 4, 5, 6, 7, 8, 9, 10};
  SampleTimes times;
  const std::vector<std::int32_t> drawn = sample(decoder, prompt, {.tokens = 1, .temperature = 0}, &times);
  EXPECT_EQ(times.prompt_tokens, 4);
  EXPECT_EQ(times.tokens, 0);
  decoder.restart();
  EXPECT_EQ(drawn[0], draw(decoder.append(std::span(prompt).subspan(4)), {.temperature = 0}, 0));
}

TEST(Sample, TheSameSeedGivesTheSameTextBeyondTheContext) {
  const ModelShape shape{.d_model = 8, .d_ff = 12, .layers = 1, .heads = 2, .vocabulary = 19, .context = 6};
  Model model(shape, 1, DType::fp32, {.threads = 1});
  model.begin(1);
  Decoder decoder(shape, model.values(), 1);
  const std::vector<std::int32_t> prompt{3, 4};
  const std::vector<std::int32_t> one = sample(decoder, prompt, {.tokens = 40, .seed = 1});
  EXPECT_EQ(one.size(), 40u);
  EXPECT_EQ(sample(decoder, prompt, {.tokens = 40, .seed = 1}), one);
  EXPECT_NE(sample(decoder, prompt, {.tokens = 40, .seed = 2}), one);
  EXPECT_THROW(sample(decoder, {}, {}), Error);

  // Greedy sampling, repeated by hand: when the context is full, the next token follows from its last 3 tokens.
  std::vector<std::int32_t> all = prompt;
  const std::vector<std::int32_t> drawn = sample(decoder, prompt, {.tokens = 6, .temperature = 0});
  all.insert(all.end(), drawn.begin(), drawn.end());
  decoder.restart();
  for (const std::size_t i : {4u, 5u}) decoder.append(all[i]);
  EXPECT_EQ(draw(decoder.append(all[6]), {.temperature = 0}, 0), all[7]);
}

}  // namespace
}  // namespace strobe::lm
