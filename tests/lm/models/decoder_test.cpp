// Compares the decoder, which has a KV cache, with the model's forward pass.
#include "lm/models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "lm/cases.h"
#include "lm/model.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

ModelShape shape_with(std::int64_t context) {
  return {.d_model = 24, .d_ff = 40, .layers = 2, .heads = 3, .vocabulary = 19, .context = context};
}

// Returns parameter values in which biases are nonzero and norm factors differ from 1.
std::vector<float> values_of(const ModelShape& shape, std::uint64_t seed) {
  Model model(shape, 1, DType::fp32, {.threads = 1});
  model.begin(seed);
  std::vector<float> values(model.values().begin(), model.values().end());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.1f * std::sin(static_cast<float>(i));
  return values;
}

// Copies parameters to a model of the same shape with a shorter context, whose table of positions has fewer rows.
void copy_by_name(const std::vector<Parameter>& table, const std::vector<float>& values, Model& model) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Parameter& to = model.parameters()[i];
    ASSERT_EQ(to.name, table[i].name);
    model.write_state(
        State::values,
        std::span(values).subspan(static_cast<std::size_t>(table[i].first), static_cast<std::size_t>(to.count())),
        to.first);
  }
}

// For every n, compares the loss over the first n tokens with that of a model with context n, which has no later
// tokens.
void expect_the_whole_forward(Architecture architecture) {
  constexpr std::int64_t kContext = 17;
  const ModelShape shape = as(architecture, shape_with(kContext));
  const std::vector<float> values = values_of(shape, 4);
  std::mt19937 random(2);
  std::vector<std::int32_t> text(kContext + 1);
  for (std::int32_t& token : text) token = static_cast<std::int32_t>(random() % 19);
  for (const int threads : {1, 2}) {
    Decoder decoder(shape, values, threads);
    for (int round = 0; round < 2; ++round) {  // the second round must not see state of the first
      double sum = 0;
      for (std::int64_t n = 1; n <= kContext; ++n) {
        const auto at = static_cast<std::size_t>(n);
        sum += cross_entropy(decoder.append(text[at - 1]), text[at]);
        Model model(as(architecture, shape_with(n)), 1, DType::fp32, {.threads = 1});
        copy_by_name(parameter_table(shape), values, model);
        EXPECT_NEAR(sum / static_cast<double>(n), model.loss(text.data(), text.data() + 1), 2e-6) << n;
      }
      decoder.restart();
    }
  }
}

TEST(Decoder, MatchesTheForwardPass) {
  for (const Architecture architecture : kArchitectures) expect_the_whole_forward(architecture);
}

// A prompt longer than one pass of the decoder gives the same logits as single tokens. The KV cache has zero or two
// tokens before the prompt, and one token follows the prompt.
TEST(Decoder, APromptGivesTheLogitsOfSingleTokens) {
  for (const Architecture architecture : kArchitectures) {
    const ModelShape shape = as(architecture, shape_with(530));
    const std::vector<float> values = values_of(shape, 4);
    std::mt19937 random(2);
    std::vector<std::int32_t> text(530);
    for (std::int32_t& token : text) token = static_cast<std::int32_t>(random() % 19);
    Decoder one_by_one(shape, values, 1), batched(shape, values, 2);
    std::vector<std::vector<float>> wanted;  // logits after each token
    for (const std::int32_t token : text) {
      const std::span<const float> logits = one_by_one.append(token);
      wanted.emplace_back(logits.begin(), logits.end());
    }
    for (const std::size_t cached : {0, 2}) {
      batched.restart();
      std::size_t begin = 0;
      for (const std::size_t end : {cached, text.size() - 1, text.size()}) {
        if (end == begin) continue;
        const std::span<const float> found = batched.append(std::span(text).subspan(begin, end - begin));
        begin = end;
        ASSERT_EQ(batched.length(), static_cast<std::int64_t>(end));
        for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[end - 1][i], 1e-5) << end;
      }
    }
  }
}

TEST(Decoder, RejectsMoreThanItsContextAndUnknownTokens) {
  const ModelShape shape = shape_with(2);
  const std::vector<float> values = values_of(shape, 1);
  Decoder decoder(shape, values, 1);
  EXPECT_THROW(decoder.append(19), Error);
  EXPECT_THROW(decoder.append(-1), Error);
  decoder.append(0);
  decoder.append(18);
  EXPECT_EQ(decoder.length(), 2);
  EXPECT_THROW(decoder.append(0), Error);
  EXPECT_THROW(decoder.append({}), Error);
  decoder.restart();
  EXPECT_THROW(decoder.append(std::vector<std::int32_t>{1, 2, 3}), Error);
  EXPECT_EQ(decoder.length(), 0);
  EXPECT_THROW(Decoder(shape, std::span(values).first(5), 1), Error);
}

}  // namespace
}  // namespace strobe::lm
