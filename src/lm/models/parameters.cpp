#include "lm/models/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/divide.h"
#include "core/philox.h"
#include "device/host/thread_pool.h"

namespace strobe::lm {

namespace {

constexpr double kCut = 3;                 // standard deviations
constexpr std::int64_t kElements = 16384;  // of a task

// Uniform in (0, 1).
double uniform(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

// Element `index` of a normal distribution that is cut at kCut: drawn anew until it is within.
double cut_normal(std::uint64_t seed, std::uint64_t index) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto words =
        philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), attempt, 0x6c6d}, seed);
    const double radius = std::sqrt(-2 * std::log(uniform(words[0]))), angle = 2 * std::numbers::pi * uniform(words[1]);
    for (const double value : {radius * std::cos(angle), radius * std::sin(angle)}) {
      if (std::abs(value) <= kCut) return value;
    }
  }
}

double deviation_of(const Parameter& parameter) {
  if (parameter.role == Role::embedding || parameter.role == Role::positions) return 1;
  return std::sqrt(2.0 / static_cast<double>(parameter.shape[0] + parameter.shape[1]));
}

}  // namespace

BlockPlaces block_places(Architecture architecture, std::size_t layer) {
  if (architecture == Architecture::gpt2) {
    const std::size_t first = 2 + 16 * layer;
    return {first, first + 2, first + 8, first + 10, first + 12, first + 14};
  }
  const std::size_t first = 1 + 9 * layer;
  return {first, first + 1, first + 4, first + 5, first + 6, first + 8};
}

std::vector<Parameter> parameter_table(const ModelShape& shape) {
  check(shape);
  const bool is_gpt2 = shape.architecture == Architecture::gpt2;
  std::vector<Parameter> table;
  std::int64_t next = 0;
  const auto add = [&](std::string name, std::int64_t rows, std::int64_t columns, Role role) {
    table.push_back({std::move(name), {rows, columns}, role, next});
    next += rows * columns;
  };
  const std::int64_t d = shape.d_model;
  const auto add_bias = [&](const std::string& name, std::int64_t width, Role role) {
    if (is_gpt2) add(name + ".bias", 1, width, role);
  };
  const auto add_norm = [&](const std::string& name) {
    add(name + ".weight", 1, d, Role::norm);
    add_bias(name, d, Role::bias);
  };
  add("embedding.weight", shape.vocabulary, d, Role::embedding);
  if (is_gpt2) add("positions.weight", shape.context, d, Role::positions);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto name = [&](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
    add_norm(name("attention_norm"));
    for (const char* part : {"attention.q", "attention.k", "attention.v"}) {
      add(name(part) + ".weight", d, d, Role::linear);
    }
    add_bias(name("attention.q"), d, Role::inner_bias);
    add_bias(name("attention.k"), d, Role::key_bias);
    add_bias(name("attention.v"), d, Role::inner_bias);
    add(name("attention.o.weight"), d, d, Role::linear);
    add_bias(name("attention.o"), d, Role::bias);
    add_norm(name("feed_forward_norm"));
    add(name("feed_forward.w1.weight"), shape.d_ff, d, Role::linear);
    if (!is_gpt2) add(name("feed_forward.w3.weight"), shape.d_ff, d, Role::linear);
    add_bias(name("feed_forward.w1"), shape.d_ff, Role::inner_bias);
    add(name("feed_forward.w2.weight"), d, shape.d_ff, Role::linear);
    add_bias(name("feed_forward.w2"), d, Role::bias);
  }
  add_norm("norm");
  add("unembedding.weight", shape.vocabulary, d, Role::linear);
  return table;
}

void begin_values(const Parameter& parameter, std::uint64_t seed, int threads, float* values) {
  const std::int64_t count = parameter.count();
  if (parameter.role == Role::norm || is_bias(parameter.role)) {
    std::fill_n(values, count, is_bias(parameter.role) ? 0.0f : 1.0f);
    return;
  }
  const double deviation = deviation_of(parameter);
  parallel_for(threads, ceil_div(count, kElements), [&](int, std::int64_t task) {
    for (std::int64_t i = task * kElements; i < std::min(count, (task + 1) * kElements); ++i) {
      values[i] = static_cast<float>(deviation * cut_normal(seed, static_cast<std::uint64_t>(parameter.first + i)));
    }
  });
}

}  // namespace strobe::lm
