// Applies the exactness rule (compare.h) to one pass of hopper in fp32. Runs the cases of the grid (grid.h) that hopper
// supports, and given cases, which hopper must support.
#pragma once

#include <string>
#include <vector>

#include "support/grid.h"
#include "support/lanes.h"

namespace strobe::test {

class HopperFp32 {
 public:
  // `runs` lists the options with which hopper runs; the rule applies to the results of each.
  HopperFp32(Pass pass, std::vector<GpuRunOptions> runs) : pass_(pass), runs_(std::move(runs)) {}

  // Returns why hopper does not support fp32 on this GPU; empty if it does.
  std::string refusal() const;

  struct Examined {
    int cases;  // number of selected fp32 cases of the grid
    int taken;  // number of these cases that hopper supports
  };
  Examined examine_grid() const;
  void examine_all(const std::vector<Case>& cases) const;

 private:
  std::string refusal(const GpuCase& on_gpu) const;
  Results standard(GpuCase& on_gpu) const;
  Results reference(const Data& data) const;
  std::string examine(const Case& c, GpuLane& lane) const;
  std::string exactness_of_many(Case c, const GpuRunOptions& options, GpuLane& lane) const;

  Pass pass_;
  std::vector<GpuRunOptions> runs_;
};

// Skips its tests if hopper does not support the pass in fp32.
template <Pass kPass>
class HopperFp32Test : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string refusal = HopperFp32(kPass, {}).refusal(); !refusal.empty()) GTEST_SKIP() << refusal;
  }
};

}  // namespace strobe::test
