// Tests the Hopper decode kernel with K and V that exceed the L2 cache, so TMA loads land out of order. Each block
// fills its pipeline stages several times. Too large for the cases of gpu_families_test.cpp, which run under
// compute-sanitizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "device/gpu_facts.h"
#include "support/compare.h"
#include "support/gpu.h"

namespace strobe::test {
namespace {

constexpr int kCalls = 20;

class GpuHopperDecode : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(GpuHopperDecode, RepeatedCallsMatchTheOracle) {
  const Case c = parse_case(GetParam());
  const Data data(c);
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  const std::string refusal = on_gpu.refusal("hopper", Pass::forward);
  if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
  ASSERT_EQ(refusal, "");
  const Outcome outcome = on_gpu.run({.kernel = "hopper", .forward_only = true});
  EXPECT_EQ(outcome.complaint, "");
  EXPECT_EQ(plausibility(c, oracle_forward(data), outcome.results), "") << describe(c);

  // Calls back to back on one stream, with one workspace: a call may overlap the end of the previous one.
  const Attention& attention = on_gpu.attention();
  Execution execution{.device = Device::cuda, .kernel = "hopper", .stream = lane.stream.handle()};
  const GpuBuffer workspace(workspace_bytes(attention, Pass::forward, execution));
  execution.workspace = workspace.data(), execution.workspace_bytes = workspace.bytes();
  Tensor o = make_tensor({.dtype = c.dtype, .shape = data.shape_o()});
  const std::size_t bytes = static_cast<std::size_t>(count_of(o.view.shape)) * size_of(c.dtype);
  std::vector<GpuBuffer> outputs;
  for (int call = 0; call < kCalls; ++call) outputs.emplace_back(bytes);
  for (const GpuBuffer& output : outputs) {
    forward(attention, {.o = view_bhsd(output.data(), c.dtype, o.view.shape)}, execution);
  }
  lane.stream.synchronize();
  for (int call = 0; call < kCalls; ++call) {
    outputs[static_cast<std::size_t>(call)].copy_to_host(o.view.data, bytes);
    Results repeated = outcome.results;
    repeated.o = o.gather();
    EXPECT_EQ(first_difference(outcome.results, repeated), "") << "call " << call;
  }
}

// Split keys with 16 tiles per block, then several items of four tiles per block.
INSTANTIATE_TEST_SUITE_P(All, GpuHopperDecode,
                         testing::Values("h32/8 s1x16384 d128 bf16 k=bshd v=bshd seed=41",
                                         "h32/8 s1x32768 d64 bf16 k=bshd v=bshd seed=42",
                                         "b10 h132/132 s1x200 d128 fp16 k=bshd v=bshd seed=43"));

}  // namespace
}  // namespace strobe::test
