#include "lm/data_parallel/strategy.h"

#include <fmt/ranges.h>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

constexpr Strategy kStrategies[] = {
    {"naive", Grouping::each, Start::after_backward, Updates::all},
    {"flat", Grouping::all, Start::after_backward, Updates::all},
    {"overlap", Grouping::each, Start::when_ready, Updates::all},
    {"bucketed", Grouping::buckets, Start::when_ready, Updates::all},
    {"sharded", Grouping::all, Start::after_backward, Updates::share},
    {"sharded-overlap", Grouping::buckets, Start::when_ready, Updates::share},
    {"sharded-rs", Grouping::buckets, Start::when_ready, Updates::scattered_share},
};

}  // namespace

std::span<const Strategy> strategies() { return kStrategies; }

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Strategy& strategy : kStrategies) names.emplace_back(strategy.name);
  return names;
}

const Strategy& strategy_of(std::string_view name) {
  for (const Strategy& strategy : kStrategies) {
    if (name == strategy.name) return strategy;
  }
  fail(ErrorCode::invalid_argument, "data parallel strategy {}; valid: {}", printable_value(name),
       fmt::join(strategy_names(), ", "));
}

}  // namespace strobe::lm
