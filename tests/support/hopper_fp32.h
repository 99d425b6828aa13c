// hopper in fp32, one pass of it, held to the exactness rule: over the grid's cases that it takes, and over cases that
// it must take.
#pragma once

#include <string>
#include <vector>

#include "support/grid.h"
#include "support/lanes.h"

namespace strobe::test {

class HopperFp32 {
 public:
  // runs: hopper's, each held to the rule.
  HopperFp32(Pass pass, std::vector<GpuRunOptions> runs) : pass_(pass), runs_(std::move(runs)) {}

  // Why hopper takes no fp32 on this card, or empty.
  std::string refusal() const;

  struct Examined {
    int cases;  // fp32 ones of the grid that were selected
    int taken;
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

// Skips where hopper does not take the pass in fp32.
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
