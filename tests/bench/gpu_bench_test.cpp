// Tests the bench on a GPU with the library's kernels: results are checked, times come from CUDA events, and memory is
// measured.
#include <gtest/gtest.h>

#include "bench/row.h"
#include "bench/runner.h"
#include "support/gpu.h"

namespace strobe::bench {
namespace {

class GpuBench : public test::GpuTest {};

AttentionCase tiny_on_gpu() {
  AttentionCase one{
      .batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 96, .seqlen_k = 96, .head_dim = 64, .dtype = DType::fp16};
  one.device = Device::cuda;
  one.causal = true;
  return one;
}

TEST_F(GpuBench, MeasuresEveryKernel) {
  Implementations implementations;
  for (const std::string& kernel : test::gpu_kernels()) {
    if (kernel.empty() || !test::gpu_refusal(attention_of(tiny_on_gpu()), kernel).empty()) continue;
    implementations.push_back(make_implementation(kernel, {.device = Device::cuda}));
  }
  RunOptions options;
  options.rule.repeats = 5;
  const std::vector<Row> rows = run_case(tiny_on_gpu(), implementations, options);
  ASSERT_EQ(rows.size(), implementations.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    EXPECT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_EQ(row.gate->fault, "") << row.implementation;
    EXPECT_EQ(row.peak_bytes, implementations[i]->predicted_bytes(tiny_on_gpu())) << row.implementation;
    EXPECT_EQ(row.saved_bytes.value_or(0), tensor_bytes(tiny_on_gpu()).forward()) << row.implementation;
    for (const Region region : kRegions) {
      ASSERT_EQ(row.series(region).samples.size(), 5u);
      for (const double seconds : row.series(region).samples) {
        EXPECT_GT(seconds, 0);
        EXPECT_LT(seconds, 0.1);
      }
    }
  }
  EXPECT_NE(rows_table(rows, {}).find("TFLOP/s"), std::string::npos);
}

// Compares the memory in use that the driver reports with the counting allocator's peak. cudaMalloc rounds each buffer
// up to pages of 2 MiB.
TEST_F(GpuBench, RowsContainTheMemoryThatTheDriverReports) {
  AttentionCase one = tiny_on_gpu();
  one.batch = 4;
  one.heads = one.kv_heads = 8;
  one.seqlen_q = one.seqlen_k = 2048;
  Implementations implementations;
  implementations.push_back(make_implementation("flash2", {.device = Device::cuda}));
  RunOptions options;
  options.rule.repeats = 1;
  const std::vector<Row> rows = run_case(one, implementations, options);
  ASSERT_EQ(rows[0].status, Status::ok) << rows[0].reason;
  constexpr std::int64_t kSlack = 24 << 20;
  EXPECT_NEAR(static_cast<double>(rows[0].driver_bytes.value_or(0)), static_cast<double>(*rows[0].peak_bytes), kSlack);
  const Json json = row_json(rows[0], {.environment = Json::object(), .command = "strobe bench"});
  EXPECT_GE(json.at("driver_memory_bytes").as_number(), 60 << 20);
  EXPECT_NE(rows_table(rows, {}).find("driver MiB"), std::string::npos);
}

TEST_F(GpuBench, EveryScoreOptionPassesTheGateAndHasItsMemoryMeasured) {
  Implementations implementations;
  implementations.push_back(make_implementation("flash2", {.device = Device::cuda}));
  RunOptions options;
  options.rule.repeats = 1;
  const ScoreOptions every[] = {{.softcap = 5},  {.alibi = true},   {.bias = "1hqk", .bias_gradient = true},
                                {.sinks = true}, {.dropout = 0.25}, {.lengths = {96, 41}}};
  for (const ScoreOptions& some : every) {
    AttentionCase one = tiny_on_gpu();
    one.options = some;
    const Row row = run_case(one, implementations, options).at(0);
    EXPECT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_EQ(row.peak_bytes, implementations[0]->predicted_bytes(one)) << describe(one);
  }
}

// The source reports' configuration: B 16, H 32, S 1024, E = H D = 2048. Eight fp16 tensors and dQ in fp32 are 20 B S E
// bytes, LSE and delta 8 B H S: 644 MiB. The tests above show that the measured peak equals the prediction, so this
// test only predicts.
TEST_F(GpuBench, TheSourceReportsCaseNeedsAtMost645MiB) {
  AttentionCase one{.batch = 16,
                    .heads = 32,
                    .kv_heads = 32,
                    .seqlen_q = 1024,
                    .seqlen_k = 1024,
                    .head_dim = 64,
                    .dtype = DType::fp16};
  one.device = Device::cuda;
  one.causal = true;
  const auto bytes = make_implementation("flash2", {.device = Device::cuda})->predicted_bytes(one);
  EXPECT_LE(*bytes, std::int64_t{645} << 20);
}

TEST_F(GpuBench, ReferenceDoesNotRunOnTheGpu) {
  Implementations implementations;
  implementations.push_back(make_implementation("reference", {.device = Device::cuda}));
  const std::vector<Row> rows = run_case(tiny_on_gpu(), implementations, {});
  EXPECT_EQ(rows.at(0).status, Status::unsupported);
  EXPECT_NE(rows.at(0).reason.find("no such kernel on device cuda"), std::string::npos) << rows.at(0).reason;
}

}  // namespace
}  // namespace strobe::bench
