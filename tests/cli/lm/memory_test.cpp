// Tests `strobe lm memory`, which measures the memory of a forward pass and of a training step, as users run it on the
// CPU.
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

TEST(LmMemory, EveryCellHasAForwardAndAStepWhoseCategoriesAddUp) {
  const Scratch scratch;
  const Program program = run_program(
      "lm memory --size tiny --context 8,16 --batch 1 --threads 1 --precision fp32,bf16 --svg a.svg", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("block.feed_forward.w1w3"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("gradient of layers.*.feed_forward.w1.weight"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("parameters  gradients  optimizer  saved  transient"), std::string::npos);
  std::istringstream lines(program.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140u) << line;
  const Json document = Json::parse(scratch.read("lm_memory_result.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 8u);
  for (const Json& row : rows) {
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : row.at("peak_by_category_bytes").as_object()) sum += bytes.as_integer();
    EXPECT_EQ(sum, row.at("peak_bytes").as_integer());
    EXPECT_EQ(row.at("counted_bytes").as_integer(), row.at("peak_bytes").as_integer());
    EXPECT_EQ(row.at("predicted_bytes").as_integer(), row.at("peak_bytes").as_integer());
    EXPECT_TRUE(row.at("driver_bytes").is_null());
    const std::int64_t element = row.at("precision").as_string() == "fp32" ? 4 : 2;
    EXPECT_EQ(row.at("residual_tensor_bytes").as_integer(), row.at("context").as_integer() * 128 * element);
    EXPECT_EQ(row.at("operations").size(), row.at("held_by_operation_and_category_bytes").size());
  }
  const auto type_of = [&](const Json& row, const char* list, const std::string& name) {
    for (const Json& lifetime : row.at(list).as_array()) {
      if (lifetime.at("name").as_string() == name)
        return lifetime.at("dtype").is_null() ? "none" : lifetime.at("dtype").as_string();
    }
    return std::string("no such lifetime");
  };
  const Json& bf16 = rows.back();
  EXPECT_EQ(type_of(bf16, "allocations", "AdamW's mean"), "fp32");
  EXPECT_EQ(type_of(bf16, "allocations", "parameters, as matmuls read them"), "bf16");
  EXPECT_EQ(type_of(bf16, "allocations", "activations and gradients"), "none");
  EXPECT_EQ(type_of(bf16, "tensors_of_the_run", "layers.0.feed_forward.w1w3"), "bf16");
  EXPECT_EQ(type_of(bf16, "tensors_of_the_run", "gradient of norm.weight"), "fp32");
  EXPECT_NE(program.output.find("  MiB  times  type  category"), std::string::npos) << program.output;
  EXPECT_NE(scratch.read("lm_memory.html").find("layers.0.feed_forward.w1w3 (bf16)"), std::string::npos);
  EXPECT_NE(scratch.read("lm_memory.html").find("tiny, context 16, batch 1, bf16, step"), std::string::npos);
  EXPECT_NE(scratch.read("a.svg").find("gradient of layers.3.attention.q.weight"), std::string::npos);
}

// The table has one row per context and precision. The peak of the forward pass is below half of the step's peak, and
// both equal their predictions.
TEST(LmMemory, TheTableHasOneRowPerCell) {
  const Scratch scratch;
  const Program program =
      run_program("lm memory --size tiny --context 8,16,32 --batch 1 --threads 1 --precision fp32,bf16", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  std::istringstream lines(program.output);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "size tiny, batch 1, recompute none");
  std::getline(lines, line);
  EXPECT_EQ(line, "context, precision  forward  predicted   step  predicted  residual");
  const Json table = Json::parse(scratch.read("lm_memory_result.json")).at("table");
  ASSERT_EQ(table.size(), 6u);
  for (const Json& row : table.as_array()) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_LE(line.size(), 80u) << line;
    std::istringstream words(line);
    std::string context, precision, forward, forward_predicted, step, step_predicted, residual;
    words >> context >> precision >> forward >> forward_predicted >> step >> step_predicted >> residual;
    EXPECT_EQ(context, std::to_string(row.at("context").as_integer()) + ",");
    EXPECT_EQ(precision, row.at("precision").as_string());
    EXPECT_EQ(forward, forward_predicted);
    EXPECT_EQ(step, step_predicted);
    EXPECT_LT(row.at("forward_peak_bytes").as_integer(), row.at("step_peak_bytes").as_integer() / 2) << line;
    EXPECT_EQ(row.at("forward_peak_bytes").as_integer(), row.at("forward_predicted_bytes").as_integer());
    EXPECT_EQ(row.at("step_peak_bytes").as_integer(), row.at("step_predicted_bytes").as_integer());
    EXPECT_NEAR(std::stod(forward), static_cast<double>(row.at("forward_peak_bytes").as_integer()) / (1 << 20), 0.006);
    const std::int64_t element = precision == "fp32" ? 4 : 2;
    EXPECT_EQ(row.at("residual_tensor_bytes").as_integer(), row.at("context").as_integer() * 128 * element);
  }
  std::getline(lines, line);
  EXPECT_EQ(line, "peak MiB on cpu, attention auto; residual: one tensor of the residual stream");
}

TEST(LmMemory, APassThatDoesNotFitHasItsPrediction) {
  const Scratch scratch;
  const Program program = run_program("lm memory --size tiny --context 512 --batch 1,1048576 --threads 1", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json document = Json::parse(scratch.read("lm_memory_result.json"));
  ASSERT_EQ(document.at("rows").size(), 4u);
  for (const std::size_t i : {2u, 3u}) {
    const Json& row = document.at("rows").as_array().at(i);
    EXPECT_EQ(row.at("status").as_string(), "oom");
    EXPECT_EQ(row.at("residual_tensor_bytes").as_integer(), std::int64_t{4} * 1048576 * 512 * 128);
    EXPECT_GT(row.at("predicted_bytes").as_integer(), 4 * row.at("residual_tensor_bytes").as_integer());
  }
  const Json& last = document.at("table").as_array().at(1);
  EXPECT_TRUE(last.at("step_peak_bytes").is_null());
  EXPECT_GT(last.at("step_predicted_bytes").as_integer(), last.at("forward_predicted_bytes").as_integer());
  EXPECT_NE(program.output.find("\n1048576      oom"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("oom: tiny, context 512, batch 1048576, fp32, step: cannot allocate"),
            std::string::npos);
}

TEST(LmMemory, StandardAttentionSavesItsProbabilities) {
  const Scratch scratch;
  const std::string flags = "lm memory --size tiny --context 64 --batch 1 --threads 1 ";
  ASSERT_EQ(run_program(flags + "--attention standard", scratch).code, 0);
  const Json document = Json::parse(scratch.read("lm_memory_result.json"));
  const Json& step = document.at("rows").as_array().at(1);
  constexpr std::int64_t kScores = 4 * 64 * 64 * 4;  // bytes: heads * context * context * sizeof(float)
  int saved = 0;
  for (const Json& lifetime : step.at("tensors_of_the_run").as_array()) {
    if (!lifetime.at("name").as_string().ends_with("attention.probabilities")) continue;
    EXPECT_EQ(lifetime.at("category").as_string(), "attention scores");
    EXPECT_EQ(lifetime.at("bytes").as_integer(), kScores);
    saved += lifetime.at("name").as_string().starts_with("layers.") ? 1 : 0;
  }
  EXPECT_EQ(saved, 4) << "one for each layer";
}

TEST(LmMemory, ComparesRecomputations) {
  const Scratch scratch;
  const std::string flags = "lm memory --size tiny --context 16 --batch 2 --threads 1 ";
  const Program program = run_program(flags + "--recompute none,attention,block", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("recompute  peak MiB  vs none  saved MiB  vs none  step ms  vs none"),
            std::string::npos)
      << program.output;
  const Json document = Json::parse(scratch.read("lm_memory_result.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 6u);
  std::int64_t saved = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    EXPECT_EQ(row.at("recompute").as_string(), (std::vector<std::string>{"none", "attention", "block"})[i / 2]);
    EXPECT_EQ(row.at("predicted_bytes").as_integer(), row.at("peak_bytes").as_integer());
    if (row.at("pass").as_string() == "forward") {
      EXPECT_EQ(row.find("step_min_s"), nullptr);
      continue;
    }
    EXPECT_GT(row.at("step_min_s").as_number(), 0);
    EXPECT_EQ(row.at("skipped").as_integer(), 0);
    EXPECT_LT(row.at("most_saved_bytes").as_integer(), saved);
    saved = row.at("most_saved_bytes").as_integer();
  }
  const Program alone = run_program(flags + "--recompute block", scratch);
  EXPECT_EQ(alone.output.find("vs none"), std::string::npos) << alone.output;
  EXPECT_NE(alone.output.find("tiny, context 16, batch 2, fp32, recompute block, step"), std::string::npos);
}

TEST(LmMemory, NothingIsWrittenIfNothingFits) {
  const Scratch scratch;
  const Program program = run_program("lm memory --size tiny --context 1024 --batch 1048576 --threads 1", scratch);
  EXPECT_EQ(program.code, 3) << program.output;
  EXPECT_EQ(program.errors,
            "strobe: lm memory: no cell fits the memory; nothing is written to lm_memory_result.json and "
            "lm_memory.html\n");
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(LmMemory, RejectsBadInputBeforeMeasuring) {
  for (const char* const flags :
       {"--size huge", "--precision tf32", "--device cuda", "--steps 3", "--context 0", "--recompute all"}) {
    const Scratch scratch;
    const Program program = run_program(std::string("lm memory ") + flags, scratch);
    EXPECT_EQ(program.code, 2) << flags << program.errors;
    EXPECT_EQ(scratch.entries(), 0u) << flags;
  }
}

}  // namespace
}  // namespace strobe::test
