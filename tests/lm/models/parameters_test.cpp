#include "lm/models/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lm/architectures.h"

namespace strobe::lm {
namespace {

TEST(Parameters, TheTableHasEveryParameterOnceAndWithoutGaps) {
  for (const std::string& name : size_names()) {
    const ModelShape shape = shape_of(name);
    std::set<std::string> names;
    std::int64_t next = 0;
    for (const Parameter& parameter : parameter_table(shape)) {
      EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
      EXPECT_EQ(parameter.first, next) << parameter.name;
      next += parameter.count();
    }
    EXPECT_EQ(next, parameter_count(shape)) << name;
    EXPECT_TRUE(names.contains("layers.0.feed_forward.w2.weight"));
  }
}

TEST(Parameters, PlacesAreThoseOfTheTable) {
  for (const Architecture architecture : kArchitectures) {
    const ModelShape shape = as(architecture, shape_of("tiny"));
    const std::vector<Parameter> table = parameter_table(shape);
    const bool is_gpt2 = architecture == Architecture::gpt2;
    EXPECT_EQ(table[kEmbedding].name, "embedding.weight");
    EXPECT_EQ(table[kPositions].name == "positions.weight", is_gpt2);
    for (const std::size_t layer : {0u, 3u}) {
      const BlockPlaces p = block_places(architecture, layer);
      const auto expect = [&](std::size_t place, const std::string& name) {
        EXPECT_EQ(table[place].name, "layers." + std::to_string(layer) + "." + name);
      };
      expect(p.attention_norm, "attention_norm.weight");
      expect(p.q, "attention.q.weight");
      expect(p.q + 1, "attention.k.weight");
      expect(p.q + 2, "attention.v.weight");
      expect(p.o, "attention.o.weight");
      expect(p.feed_forward_norm, "feed_forward_norm.weight");
      expect(p.w1, "feed_forward.w1.weight");
      expect(p.w2, "feed_forward.w2.weight");
      if (!is_gpt2) {
        expect(p.w1 + 1, "feed_forward.w3.weight");
        continue;
      }
      expect(p.attention_norm + 1, "attention_norm.bias");
      expect(p.q + 3, "attention.q.bias");
      expect(p.q + 4, "attention.k.bias");
      expect(p.q + 5, "attention.v.bias");
      expect(p.o + 1, "attention.o.bias");
      expect(p.feed_forward_norm + 1, "feed_forward_norm.bias");
      expect(p.w1 + 1, "feed_forward.w1.bias");
      expect(p.w2 + 1, "feed_forward.w2.bias");
    }
    EXPECT_EQ(table[block_places(architecture, 4).attention_norm].name, "norm.weight");
    EXPECT_EQ(table.back().name, "unembedding.weight");
    for (const Parameter& parameter : table) {
      EXPECT_EQ(is_bias(parameter.role), parameter.name.ends_with(".bias")) << parameter.name;
    }
  }
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
  explicit Moments(const std::vector<float>& values) {
    double squares = 0;
    for (const float value : values) {
      mean += value;
      squares += static_cast<double>(value) * value;
      largest = std::max(largest, static_cast<double>(std::abs(value)));
    }
    mean /= static_cast<double>(values.size());
    deviation = std::sqrt(squares / static_cast<double>(values.size()) - mean * mean);
  }
};

// A normal distribution cut at 3 deviations has 0.98658 of its deviation.
TEST(Parameters, BeginAsTheirRoleSays) {
  constexpr double kCutDeviation = 0.98658;
  Parameter parameter{.name = "w", .shape = {300, 500}, .role = Role::linear, .first = 1000};
  std::vector<float> values(150'000), again(150'000);
  begin_values(parameter, 7, 1, values.data());
  begin_values(parameter, 7, 3, again.data());
  EXPECT_EQ(values, again) << "any number of threads";
  const Moments linear(values);
  const double deviation = std::sqrt(2.0 / 800);
  EXPECT_NEAR(linear.mean, 0, 4 * deviation / std::sqrt(150'000.0));
  EXPECT_NEAR(linear.deviation, deviation * kCutDeviation, deviation * 0.01);
  EXPECT_LE(linear.largest, 3 * deviation * (1 + 1e-6));
  EXPECT_GT(linear.largest, 2.9 * deviation);

  begin_values(parameter, 8, 1, again.data());
  EXPECT_NE(values, again) << "another seed";
  parameter.first = 1001;
  begin_values(parameter, 7, 1, again.data());
  EXPECT_EQ(std::vector<float>(values.begin() + 1, values.end()), std::vector<float>(again.begin(), again.end() - 1))
      << "a value is its place's";

  parameter.role = Role::embedding;
  begin_values(parameter, 7, 1, values.data());
  EXPECT_NEAR(Moments(values).deviation, kCutDeviation, 0.01);
  parameter.role = Role::norm;
  begin_values(parameter, 7, 1, values.data());
  EXPECT_EQ(values, std::vector<float>(values.size(), 1.0f));
  parameter.role = Role::positions;
  begin_values(parameter, 7, 1, values.data());
  EXPECT_NEAR(Moments(values).deviation, kCutDeviation, 0.01);
  for (const Role role : {Role::bias, Role::inner_bias}) {
    parameter.role = role;
    begin_values(parameter, 7, 1, values.data());
    EXPECT_EQ(values, std::vector<float>(values.size(), 0.0f));
  }
}

}  // namespace
}  // namespace strobe::lm
