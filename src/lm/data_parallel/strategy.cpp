// Defines the table of strategies and assigns tensors to buckets.
#include "lm/data_parallel/strategy.h"

#include <fmt/ranges.h>
#include <limits>

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

namespace {

std::int64_t most_elements(Grouping grouping, std::int64_t bucket_bytes) {
  switch (grouping) {
    case Grouping::each: return 0;  // so every tensor gets its own bucket
    case Grouping::all: return std::numeric_limits<std::int64_t>::max();
    case Grouping::buckets: break;
  }
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(float));
  if (bucket_bytes < kElement) {
    fail(ErrorCode::invalid_argument, "a bucket of {} bytes; valid: {} or more", bucket_bytes, kElement);
  }
  return bucket_bytes / kElement;
}

}  // namespace

std::vector<Bucket> buckets_of(std::span<const Tensor> tensors, Grouping grouping, std::int64_t bucket_bytes) {
  const std::int64_t most = most_elements(grouping, bucket_bytes);
  std::vector<Bucket> buckets;
  bool open = false;  // true if the last bucket accepts more tensors
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const Tensor& tensor = tensors[i];
    if (tensor.frozen) {
      open = false;
      continue;
    }
    const bool fits =
        open && tensor.first + tensor.count == buckets.back().first && buckets.back().count <= most - tensor.count;
    if (!fits) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.tensors.push_back(i);
    bucket.first = tensor.first;
    bucket.count += tensor.count;
    open = true;
  }
  return buckets;
}

}  // namespace strobe::lm
