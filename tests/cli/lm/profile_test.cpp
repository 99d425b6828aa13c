// Tests `strobe lm profile` as users run it: times per operation and kernel, the trace file, and bad input.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "core/json.h"
#include "device/kernel_trace.h"
#include "support/gpu.h"

namespace strobe::test {
namespace {

TEST(LmProfile, EveryCellHasItsKindsOperationsAndATrace) {
  const Scratch scratch;
  const Program program =
      run_program("lm profile --context 8 --batch 1 --threads 1 --warmup 1 --steps 2 --precision fp32,bf16", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  for (const char* const words :
       {"matmuls of linear layers", "wall clock", "swiglu backward", "GFLOP/s", "share of matmuls, %"}) {
    EXPECT_NE(program.output.find(words), std::string::npos) << program.output;
  }
  const Json document = Json::parse(scratch.read("lm_profile_result.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_LE(row.at("operations_s").as_number(), row.at("wall_s").as_number());
    const Json& shares = row.at("matmul_shares");
    EXPECT_GT(shares.at("forward").at("linear").as_number(), 0);
    EXPECT_LT(shares.at("step").at("with_attention").as_number(), 1);
    EXPECT_GT(shares.at("step").at("with_attention").as_number(), shares.at("step").at("linear").as_number());
    double all_classes = 0;
    for (const char* const part : {"linear_s", "attention_matmuls_s", "attention_rest_s", "other_s"}) {
      all_classes += shares.at("step").at(part).as_number();
    }
    EXPECT_NEAR(all_classes, row.at("operations_s").as_number(), 1e-6);
    EXPECT_EQ(row.at("kinds").size(), 7u);
    double all = 0;
    for (const auto& [phase, kinds] : row.at("kinds_of_phases_s").as_object()) {
      double sum = 0;
      for (const auto& [kind, seconds] : kinds.as_object()) sum += seconds.as_number();
      EXPECT_NEAR(sum, row.at("phases_s").at(phase).as_number(), 1e-6) << phase;
      all += sum;
    }
    EXPECT_NEAR(all, row.at("operations_s").as_number(), 1e-6);
  }
  const Json trace = Json::parse(scratch.read("lm_profile_trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 2u * 2 * 90);
}

TEST(LmProfile, SeparatesAttentionsPartsOrReportsThatTheyAreFused) {
  const std::string command = "lm profile --context 8 --batch 1 --threads 1 --warmup 1 --steps 2 --attention ";
  const std::string fused = "fused attention computes its matmuls and softmax in one kernel";
  for (const std::string kernel : {"standard", "flash2"}) {
    const Scratch scratch;
    const Program program = run_program(command + kernel, scratch);
    ASSERT_EQ(program.code, 0) << program.errors;
    const bool is_apart = kernel == "standard";
    EXPECT_EQ(program.output.find(fused) == std::string::npos, is_apart) << program.output;
    for (const char* const words : {"part of attention", "attention backward softmax gradient ", "attention: "}) {
      EXPECT_EQ(program.output.find(words) != std::string::npos, is_apart) << words << "\n" << program.output;
    }
    const Json document = Json::parse(scratch.read("lm_profile_result.json"));
    const Json& row = document.at("rows").as_array().at(0);
    EXPECT_EQ(row.at("attention_is_fused").as_bool(), !is_apart);
    EXPECT_EQ(row.at("matmul_shares").at("forward").at("attention_matmuls_s").as_number() > 0, is_apart);
    EXPECT_EQ(program.output.find("matmuls of attention") != std::string::npos, is_apart) << program.output;
    for (const Json& one : row.at("operations").as_array()) {
      const Json* const parts = one.find("parts");
      ASSERT_EQ(parts != nullptr, is_apart && one.at("kind").as_string() == "attention") << one.dump();
      double sum = 0;
      for (std::size_t i = 0; parts && i < parts->size(); ++i) sum += parts->as_array()[i].at("s_per_step").as_number();
      EXPECT_LE(sum, one.at("s_per_step").as_number() * (1 + 1e-9));
    }
    EXPECT_EQ(scratch.read("lm_profile_trace.json").find("softmax gradient") != std::string::npos, is_apart);
  }
}

TEST(LmProfile, ACellThatDoesNotFitIsARow) {
  const Scratch scratch;
  const std::string flags =
      "lm profile --size tiny --layers 1 --context 1024 --steps 1 --warmup 0 --device cpu --batch ";
  const Program program = run_program(flags + "1,1048576", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("oom: tiny (layers 1), context 1024, batch 1048576, fp32: cannot allocate "),
            std::string::npos)
      << program.output;
  const Json document = Json::parse(scratch.read("lm_profile_result.json"));
  const Json::Array& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("status").as_string(), "ok");
  EXPECT_EQ(rows[1].at("status").as_string(), "oom");
  const Scratch other;
  const Program none = run_program(flags + "1048576", other);
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.errors.find("no cell fits the memory; nothing is written"), std::string::npos) << none.errors;
  EXPECT_EQ(other.entries(), 0u);
}

TEST(LmProfile, RejectsBadInputBeforeMeasuring) {
  for (const char* const flags : {"--device cuda", "--size huge", "--steps 0", "--pass step"}) {
    const Scratch scratch;
    const Program program = run_program(std::string("lm profile ") + flags, scratch);
    EXPECT_EQ(program.code, 2) << flags << program.errors;
    EXPECT_EQ(scratch.entries(), 0u) << flags;
  }
}

TEST(LmProfile, ReportsWhyThereIsNoProfileOfAGpu) {
  const Scratch scratch;
  const Program program = run_program("lm profile --device cuda", scratch);
  EXPECT_NE(program.errors.find("--device cuda: "), std::string::npos) << program.errors;
  EXPECT_NE(program.errors.find("valid: cpu"), std::string::npos) << program.errors;
  EXPECT_EQ(program.errors.find('\n'), program.errors.size() - 1) << "one line: " << program.errors;
}

using GpuLmProfile = GpuTest;

TEST_F(GpuLmProfile, HasKernelsNextToOperations) {
  if (const std::string reason = kernel_trace_refusal(); !reason.empty()) GTEST_SKIP() << reason;
  const Scratch scratch;
  const Program program = run_command(
      "'" STROBE_PROGRAM "' lm profile --size tiny --context 64 --batch 1 --steps 2 --precision bf16", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const char* const words : {"kernel ", "GPU idle", "as a graph", "cumulative %"}) {
    EXPECT_NE(program.output.find(words), std::string::npos) << program.output;
  }
  const Json document = Json::parse(scratch.read("lm_profile_result.json"));
  const Json& row = document.at("rows").as_array().at(0);
  EXPECT_EQ(row.at("device").as_string(), "cuda");
  double kinds = 0, kernels = 0;
  for (const Json& one : row.at("kinds").as_array()) kinds += one.at("s_per_step").as_number();
  for (const Json& one : row.at("kernels").as_array()) kernels += one.at("s_per_step").as_number();
  const double all = row.at("gpu_s").as_number();
  EXPECT_NEAR(kinds + row.at("gpu_outside_operations_s").as_number(), all, 1e-6 * all);
  EXPECT_NEAR(kernels, all, 1e-6 * all);
  for (const Json& one : row.at("operations").as_array()) {
    EXPECT_GE(one.at("kernels").size(), 1u) << one.at("name").as_string();
  }
  EXPECT_GT(Json::parse(scratch.read("lm_profile_trace.json")).at("traceEvents").size(), 200u);
}

TEST_F(GpuLmProfile, SeparatesAttentionsKernelsOrReportsThatTheyAreFused) {
  if (const std::string reason = kernel_trace_refusal(); !reason.empty()) GTEST_SKIP() << reason;
  for (const std::string kernel : {"standard", "flash2"}) {
    const Scratch scratch;
    const Program program = run_command(
        "'" STROBE_PROGRAM "' lm profile --size tiny --context 64 --batch 1 --steps 2 --attention " + kernel, scratch);
    ASSERT_EQ(program.code, 0) << program.errors;
    const Json document = Json::parse(scratch.read("lm_profile_result.json"));
    EXPECT_EQ(document.at("rows").as_array().at(0).at("attention_is_fused").as_bool(), kernel == "flash2");
    EXPECT_EQ(program.output.find("attention, fused") != std::string::npos, kernel == "flash2") << program.output;
    const Json& forward = document.at("rows").as_array().at(0).at("matmul_shares").at("forward");
    EXPECT_EQ(forward.at("attention_matmuls_s").as_number() > 0, kernel == "standard") << forward.dump();
  }
}

TEST_F(GpuLmProfile, IsRejectedIfCuptiCannotBeOpened) {
  const Scratch scratch;
  const Program program = run_command(
      "STROBE_CUPTI=/nowhere/libcupti.so '" STROBE_PROGRAM "' lm profile --size tiny --device cuda", scratch);
  EXPECT_EQ(program.code, 2) << program.errors;
  EXPECT_NE(program.errors.find("/nowhere/libcupti.so"), std::string::npos) << program.errors;
  EXPECT_EQ(scratch.entries(), 0u);
}

}  // namespace
}  // namespace strobe::test
