// Runs hopper in fp32 on the grid and on given cases, and applies the exactness rule (compare.h).
#include "support/hopper_fp32.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/compare.h"
#include "support/selection.h"

namespace strobe::test {

std::string HopperFp32::refusal() const {
  const ConstView view = view_bhsd<const void>(nullptr, DType::fp32, {1, 1, 512, 64});
  for (const Verdict& verdict : explain({.q = view, .k = view, .v = view}, pass_, {.device = Device::cuda})) {
    if (verdict.kernel == "hopper") return verdict.refusal;
  }
  return "this build has no kernel hopper";
}

// Returns why hopper refuses the case; empty if it accepts it. For the backward it must accept both passes.
std::string HopperFp32::refusal(const GpuCase& on_gpu) const {
  return pass_ == Pass::forward ? on_gpu.refusal("hopper", Pass::forward) : on_gpu.refusal("hopper");
}

Results HopperFp32::standard(GpuCase& on_gpu) const {
  return on_gpu.run({.kernel = "standard", .forward_only = pass_ == Pass::forward}).results;
}

Results HopperFp32::reference(const Data& data) const {
  return pass_ == Pass::forward ? oracle_forward(data, 1) : oracle(data, 1);
}

// Repeats a case with other random inputs (Draws of compare.h). Returns the faults of outputs that break the rule in
// most draws; empty if none does.
std::string HopperFp32::exactness_of_many(Case c, const GpuRunOptions& options, GpuLane& lane) const {
  Draws draws;
  bool drawn = false;
  for (int draw = 0; draw < Draws::kCount; ++draw) {
    ++c.seed;
    const Data data(c);
    GpuCase on_gpu(data, lane);
    if (!refusal(on_gpu).empty()) continue;  // another seed draws other lengths, which hopper may refuse
    drawn = true;
    const Results baseline = standard(on_gpu);
    draws.add(exactness_by_output(c, reference(data), baseline, on_gpu.run(options).results));
  }
  return drawn ? draws.verdict() : "  the rule is broken, and hopper accepts no other draw\n";
}

std::string HopperFp32::examine(const Case& c, GpuLane& lane) const {
  std::string text;
  std::vector<GpuRunOptions> broken;
  {
    const Data data(c);
    GpuCase on_gpu(data, lane);
    const Results expected = reference(data), baseline = standard(on_gpu);
    for (const GpuRunOptions& options : runs_) {
      const Outcome outcome = on_gpu.run(options);
      text += outcome.complaint;
      if (!exactness(c, expected, baseline, outcome.results).empty()) broken.push_back(options);
    }
  }
  for (const GpuRunOptions& options : broken) text += exactness_of_many(c, options, lane);
  return text.empty() ? text : describe(c) + "\n" + text;
}

HopperFp32::Examined HopperFp32::examine_grid() const {
  std::vector<Case> cases;
  for (std::int64_t index = 0; index < kGridSize; ++index) {
    if (Case c = grid_case(index).for_hopper(); selected(index) && c.dtype == DType::fp32)
      cases.push_back(std::move(c));
  }
  std::atomic<int> taken{0};
  const auto failures = over_lanes(static_cast<std::int64_t>(cases.size()), [&](GpuLane& lane, std::int64_t index) {
    const Case& c = cases[static_cast<std::size_t>(index)];
    const Data data(c);
    if (!refusal(GpuCase(data, lane)).empty()) return std::string();
    ++taken;
    return examine(c, lane);
  });
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
  return {static_cast<int>(cases.size()), taken};
}

void HopperFp32::examine_all(const std::vector<Case>& cases) const {
  const auto failures = over_lanes(static_cast<std::int64_t>(cases.size()), [&](GpuLane& lane, std::int64_t index) {
    const Case& c = cases[static_cast<std::size_t>(index)];
    const Data data(c);
    const std::string reason = refusal(GpuCase(data, lane));
    return reason.empty() ? examine(c, lane) : describe(c) + " was refused: " + reason;
  });
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

}  // namespace strobe::test
