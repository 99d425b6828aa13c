// Applies the exactness rule (support/compare.h) to the generated grid (support/grid.h) on a GPU. The errors of each
// CUDA kernel are compared with those of `standard` on the GPU in the same dtype. `standard` must pass plausibility().
// Cases with options that hopper refuses run again without them, for hopper only.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "support/compare.h"
#include "support/grid.h"
#include "support/lanes.h"
#include "support/selection.h"

namespace strobe::test {
namespace {

constexpr std::int64_t kGpuShards = 24;
constexpr std::int64_t kGpuPerShard = kGridSize / kGpuShards;

// Half of the cases run without the deterministic option, so the order in which dQ is summed varies.
bool is_deterministic(const Case& c) { return c.seed % 2 == 0; }

// Repeats a case that broke the rule with many other random inputs (draws), as in grid_test.cpp.
std::string exactness_of_many(Case c, const std::string& kernel, GpuLane& lane) {
  Draws draws;
  const bool deterministic = is_deterministic(c);
  for (int draw = 0; draw < Draws::kCount; ++draw) {
    ++c.seed;
    const Data data(c);
    GpuCase on_gpu(data, lane);
    const Results standard = on_gpu.run({.kernel = "standard"}).results;
    const Outcome outcome = on_gpu.run({.kernel = kernel, .deterministic = deterministic});
    if (!outcome.complaint.empty()) return outcome.complaint;
    draws.add(exactness_by_output(c, oracle(data, 1), standard, outcome.results));
  }
  return draws.verdict();
}

// Returns all faults of these kernels in one case, or an empty string.
std::string examine(const Case& c, std::vector<std::string> names, GpuLane& lane) {
  const Data data(c);
  GpuCase on_gpu(data, lane);
  std::erase_if(names, [&](const std::string& name) { return name != "standard" && !on_gpu.refusal(name).empty(); });
  const bool only_standard = names == std::vector<std::string>{"standard"};
  if (names.empty() || (only_standard && gpu_kernels() != names)) return {};  // each case of the grid has others
  const Results reference = oracle(data, 1);
  std::optional<Outcome> standard;  // absent if STROBE_TEST_KERNEL excludes it
  std::string text;
  if (std::find(names.begin(), names.end(), "standard") != names.end()) {
    standard = on_gpu.run({.kernel = "standard"});
    text = standard->complaint + plausibility(c, reference, standard->results);
    if (!text.empty()) text = "standard on cuda:\n" + text;
  }
  std::vector<std::string> suspects;  // checked last, because their draws use the lane's memory
  for (const std::string& kernel : names) {
    if (kernel == "standard") continue;
    std::string wrong;
    try {
      const Outcome outcome = on_gpu.run({.kernel = kernel, .deterministic = is_deterministic(c)});
      wrong = outcome.complaint;
      if (!standard) {
        wrong += plausibility(c, reference, outcome.results);
      } else if (!exactness(c, reference, standard->results, outcome.results).empty()) {
        suspects.push_back(kernel);
      }
    } catch (const Error& error) {
      wrong = fmt::format("  threw: {}\n", error.what());
    }
    if (!wrong.empty()) text += fmt::format("{} on cuda:\n{}", kernel, wrong);
  }
  for (const std::string& kernel : suspects) {
    const std::string wrong = exactness_of_many(c, kernel, lane);
    if (!wrong.empty()) text += fmt::format("{} on cuda:\n{}", kernel, wrong);
  }
  return text.empty() ? text : describe(c) + "\n" + text;
}

class GpuGrid : public GpuTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(GpuGrid, Exact) {
  std::vector<std::int64_t> cases;
  for (std::int64_t index = GetParam() * kGpuPerShard; index < (GetParam() + 1) * kGpuPerShard; ++index) {
    if (selected(index)) cases.push_back(index);
  }
  RecordProperty("cases", static_cast<int>(cases.size()));
  if (cases.empty()) GTEST_SKIP() << "no case of this shard is selected";
  const auto failures = over_lanes(static_cast<std::int64_t>(cases.size()), [&](GpuLane& lane, std::int64_t index) {
    const Case c = grid_case(cases[static_cast<std::size_t>(index)]);
    std::string text = examine(c.for_gpu(), gpu_kernels(), lane);
    if (c.mask || c.alibi_batch || !c.first_keys.empty()) {
      std::vector<std::string> names = gpu_kernels();
      std::erase_if(names, [](const std::string& name) { return name != "standard" && name != "hopper"; });
      text += examine(c.for_hopper(), names, lane);
    }
    return text;
  });
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

INSTANTIATE_TEST_SUITE_P(Shards, GpuGrid, testing::Range(std::int64_t{0}, kGpuShards));

}  // namespace
}  // namespace strobe::test
