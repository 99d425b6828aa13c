// Tests the parameter table of each architecture: order, shapes and initial values.
#include "lm/models/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lm/cases.h"

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

struct Order {
  Architecture architecture;
  std::vector<std::string> before, block, after;
};
const Order kOrders[] = {
    {Architecture::llama,
     {"embedding.weight"},
     {"attention_norm.weight", "attention.q.weight", "attention.k.weight", "attention.v.weight", "attention.o.weight",
      "feed_forward_norm.weight", "feed_forward.w1.weight", "feed_forward.w3.weight", "feed_forward.w2.weight"},
     {"norm.weight", "unembedding.weight"}},
    {Architecture::gpt2,
     {"embedding.weight", "positions.weight"},
     {"attention_norm.weight", "attention_norm.bias", "attention.q.weight", "attention.k.weight", "attention.v.weight",
      "attention.q.bias", "attention.k.bias", "attention.v.bias", "attention.o.weight", "attention.o.bias",
      "feed_forward_norm.weight", "feed_forward_norm.bias", "feed_forward.w1.weight", "feed_forward.w1.bias",
      "feed_forward.w2.weight", "feed_forward.w2.bias"},
     {"norm.weight", "norm.bias", "unembedding.weight"}},
};

// Parameters are in the order in which the forward uses them, which is their order in checkpoints.
TEST(Parameters, AreInTheOrderOfTheForward) {
  for (const auto& [architecture, before, block, after] : kOrders) {
    const std::vector<Parameter> table = parameter_table(as(architecture, shape_of("tiny")));
    std::vector<std::string> wanted = before, names;
    for (std::size_t layer = 0; layer < 4; ++layer) {
      EXPECT_EQ(first_parameter(architecture, layer), wanted.size());
      for (const std::string& name : block) wanted.push_back("layers." + std::to_string(layer) + "." + name);
    }
    EXPECT_EQ(first_parameter(architecture, 4), wanted.size());
    wanted.insert(wanted.end(), after.begin(), after.end());
    for (const Parameter& parameter : table) names.push_back(parameter.name);
    EXPECT_EQ(names, wanted);
  }
}

TEST(Parameters, TablesStartAndEndAsEveryModelNeeds) {
  for (const Architecture architecture : kArchitectures) {
    const std::vector<Parameter> table = parameter_table(as(architecture, shape_of("tiny")));
    EXPECT_EQ(table[kEmbedding].role, Role::embedding);
    EXPECT_EQ(table.back().name, "unembedding.weight");
    EXPECT_EQ(table[first_parameter(architecture, 0)].name.find("layers.0."), 0u);
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

// A normal distribution truncated at 3 standard deviations has 0.98658 times the standard deviation.
TEST(Parameters, InitialValuesFollowTheirRole) {
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
      << "a value depends only on its index in the table";

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
