// Tests the bench with cuDNN on a GPU: outputs pass the correctness gate, memory equals the prediction, and errors
// contain cuDNN's message.
#include <gtest/gtest.h>

#include "bench/cudnn_peer.h"
#include "bench/runner.h"
#include "support/gpu.h"

namespace strobe::bench {
namespace {

class GpuCudnn : public test::GpuTest {
 protected:
  void SetUp() override {
    test::GpuTest::SetUp();
    if (IsSkipped()) return;
    try {
      cudnn_version();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

AttentionCase tiny_for_cudnn() {
  AttentionCase one{
      .batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 128, .seqlen_k = 128, .head_dim = 64, .dtype = DType::fp16};
  one.device = Device::cuda;
  return one;
}

std::vector<Row> run(const AttentionCase& one, const std::vector<std::string>& names) {
  Implementations implementations;
  for (const std::string& name : names) {
    implementations.push_back(make_implementation(name, {.device = Device::cuda}));
  }
  RunOptions options;
  options.rule.repeats = 3;
  return run_case(one, implementations, options);
}

// Checks every output against float64, and that the measured peak, including the workspace, equals the prediction.
void expect_right(const AttentionCase& one) {
  const Row row = run(one, {"cudnn"}).at(0);
  EXPECT_EQ(row.status, Status::ok) << describe(one) << ": " << row.reason;
  if (row.status != Status::ok) return;
  EXPECT_EQ(row.gate->comparisons.size(), has_backward(one.passes) ? 5u : 1u) << describe(one);
  EXPECT_EQ(row.peak_bytes, row.predicted_bytes) << describe(one);
  EXPECT_TRUE(row.kernel.starts_with("cudnn " + cudnn_version() + ", forward ")) << row.kernel;
  EXPECT_EQ(row.kernel.find(", backward ") != std::string::npos, has_backward(one.passes)) << row.kernel;
}

TEST_F(GpuCudnn, PassesTheGateInBothTypes) {
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    for (const std::int64_t head_dim : {64, 128}) {
      for (const Passes passes : {Passes::forward, Passes::backward, Passes::both}) {
        AttentionCase one = tiny_for_cudnn();
        one.dtype = dtype;
        one.head_dim = head_dim;
        one.passes = passes;
        expect_right(one);
      }
    }
  }
}

TEST_F(GpuCudnn, PassesTheGateWithEveryMask) {
  struct Shape {
    std::int64_t seqlen_q, seqlen_k;
    Alignment alignment;
  };
  for (const Shape& shape : {Shape{128, 128, Alignment::unset}, Shape{128, 128, Alignment::bottom_right},
                             Shape{128, 256, Alignment::top_left}, Shape{256, 128, Alignment::top_left},
                             Shape{128, 256, Alignment::bottom_right}, Shape{100, 213, Alignment::bottom_right}}) {
    for (const bool causal : {false, true}) {
      AttentionCase one = tiny_for_cudnn();
      one.seqlen_q = shape.seqlen_q;
      one.seqlen_k = shape.seqlen_k;
      one.alignment = shape.alignment;
      one.causal = causal;
      expect_right(one);
    }
  }
}

TEST_F(GpuCudnn, PassesTheGateWithAnyGrouping) {
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    AttentionCase one = tiny_for_cudnn();
    one.kv_heads = kv_heads;
    one.causal = true;
    expect_right(one);
  }
}

TEST_F(GpuCudnn, IsTimedInTheSameRunAsFlash2) {
  AttentionCase one = tiny_for_cudnn();
  one.causal = true;
  const std::vector<Row> rows = run(one, {"flash2", "cudnn"});
  for (const Row& row : rows) {
    ASSERT_EQ(row.status, Status::ok) << row.reason;
    for (const Region region : kRegions) EXPECT_EQ(row.series(region).samples.size(), 3u) << row.implementation;
  }
}

TEST_F(GpuCudnn, ErrorsComeFromCudnn) {
  AttentionCase one = tiny_for_cudnn();
  one.head_dim = 36;
  const Row odd = run(one, {"cudnn"}).at(0);
  EXPECT_EQ(odd.status, Status::unsupported);
  EXPECT_NE(odd.reason.find("multiple of 8"), std::string::npos) << odd.reason;
  one = tiny_for_cudnn();
  one.seqlen_q = 256;
  one.causal = true;
  one.alignment = Alignment::bottom_right;
  const Row above = run(one, {"cudnn"}).at(0);
  EXPECT_EQ(above.status, Status::unsupported);
  EXPECT_EQ(above.reason.find("cudnn: forward: "), 0u) << above.reason;
}

// The memory prediction and the run of a case share one cuDNN plan. Another case gets its own plan.
TEST_F(GpuCudnn, AnotherCaseGetsAnotherPlan) {
  Implementations implementations;
  implementations.push_back(make_implementation("cudnn", {.device = Device::cuda}));
  RunOptions options;
  options.rule.repeats = 1;
  AttentionCase one = tiny_for_cudnn();
  for (int step = 0; step < 4; ++step) {
    if (step == 1) one.causal = true;
    if (step == 2) one.seqlen_k = one.seqlen_q = 320;
    if (step == 3) one.dtype = DType::bf16;
    const Row row = run_case(one, implementations, options).at(0);
    EXPECT_EQ(row.status, Status::ok) << describe(one) << ": " << row.reason;
  }
}

}  // namespace
}  // namespace strobe::bench
