// Builds the parameter table and computes initial values.
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

constexpr double kCut = 3;                 // truncation of initial values, in standard deviations
constexpr std::int64_t kElements = 16384;  // elements per task

// Maps a random word to a number in (0, 1).
double uniform(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

// Returns number `index` of a sequence of truncated normal numbers: draws again until the number is within kCut.
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

std::size_t first_parameter(Architecture architecture, std::size_t layer) {
  const Definition& definition = definition_of(architecture);
  return definition.before_blocks.size() + layer * definition.block.size();
}

std::vector<Parameter> parameter_table(const ModelShape& shape) {
  check(shape);
  std::vector<Parameter> table;
  std::int64_t next = 0;
  const auto add = [&](std::span<const ParameterRow> rows, const std::string& prefix) {
    for (const ParameterRow& row : rows) {
      table.push_back({prefix + row.name, {shape.at(row.rows), shape.at(row.columns)}, row.role, next});
      next += table.back().count();
    }
  };
  const Definition& definition = shape.definition();
  add(definition.before_blocks, "");
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) add(definition.block, fmt::format("layers.{}.", layer));
  add(definition.after_blocks, "");
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
