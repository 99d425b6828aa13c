// Tests `strobe lm bench` as users run it, on the CPU: rows and phases, flags that change the model, skipped fp16
// steps, cells that do not fit in memory, signals and bad input.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "cli/background.h"
#include "cli/lm/run.h"
#include "cli/run_program.h"
#include "core/json.h"
#include "device/host/thread_pool.h"

namespace strobe::test {
namespace {

constexpr const char* kLmBench = "lm bench --size tiny --context 8 --batch 1 --threads 1 --quick --warmup 1 --steps 3 ";

// Expects one table line per row and phase, with the numbers of the result file, and no line over 140 characters.
void expect_phase_rows(const std::string& output, const std::vector<Json>& rows) {
  for (const Json& row : rows) {
    for (const char* const phase : {"forward", "backward", "update", "whole"}) {
      const Json& figures = row.at(phase);
      const std::regex line(
          fmt::format("{} +{} +{:.3f} \\+-{:.3f} +{:.3f} +{:.0f}\n", row.at("precision").as_string(), phase,
                      1e3 * figures.at("mean_s").as_number(), 1e3 * figures.at("stddev_s").as_number(),
                      1e3 * figures.at("median_s").as_number(), figures.at("peak_bytes").as_number() / (1 << 20)));
      EXPECT_TRUE(std::regex_search(output, line)) << phase << "\n" << output;
    }
  }
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140u) << line;
}

TEST(LmBench, EveryCombinationIsARowWithItsPhases) {
  const Scratch scratch;
  const Program program = run_program(std::string(kLmBench) + "--precision bf16,fp32 --output out.json", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("tokens/s"), std::string::npos) << program.output;
  const Json document = Json::parse(scratch.read("out.json"));
  EXPECT_NE(document.find("environment"), nullptr);
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("status").as_string(), "ok");
    EXPECT_EQ(row.at("context").as_integer(), 8);
    EXPECT_GT(row.at("loss").as_number(), 4);
    const double whole = row.at("whole").at("mean_s").as_number();
    EXPECT_NEAR(row.at("tokens_per_s").as_number(), 8 / whole, 1);
    for (const char* phase : {"forward", "backward", "update", "whole"}) {
      EXPECT_GT(row.at(phase).at("median_s").as_number(), 0) << phase;
      EXPECT_GT(row.at(phase).at("peak_bytes").as_integer(), 16 * row.at("parameters").as_integer()) << phase;
    }
  }
  expect_phase_rows(program.output, rows);
  EXPECT_EQ(rows[1].at("speedup_over_fp32").as_number(), 1);
  EXPECT_GT(rows[0].at("speedup_over_fp32").as_number(), 0);
}

TEST(LmBench, ReportsThatOtherProcessesUsedTheCores) {
  const Scratch scratch;
  std::atomic<bool> ended{false};
  std::vector<std::jthread> others;
  for (int core = 0; core < available_cores(); ++core) {
    others.emplace_back([&] {
      while (!ended) {
      }
    });
  }
  const Program program =
      run_program("lm bench --size tiny --context 64 --batch 1 --threads 1 --quick --warmup 1 --steps 20", scratch);
  ended = true;
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("\nnote: other processes used "), std::string::npos) << program.output;
}

TEST(LmBench, PassesHaveThePhasesThatTheyRun) {
  const Scratch scratch;
  EXPECT_EQ(run_program(std::string(kLmBench) + "--pass forward --output out.json", scratch).code, 0);
  Json document = Json::parse(scratch.read("out.json"));
  const Json forward = document.at("rows").as_array().at(0);
  EXPECT_TRUE(forward.at("backward").is_null());
  EXPECT_EQ(forward.at("whole").at("peak_bytes").as_integer(), forward.at("predicted_bytes").as_integer());
  EXPECT_EQ(run_program(std::string(kLmBench) + "--pass forward_backward --output out.json", scratch).code, 0);
  document = Json::parse(scratch.read("out.json"));
  const Json both = document.at("rows").as_array().at(0);
  EXPECT_GT(both.at("backward").at("mean_s").as_number(), 0);
  EXPECT_TRUE(both.at("update").is_null());
  EXPECT_EQ(both.at("flop").as_number(), 3 * forward.at("flop").as_number());
  EXPECT_LT(forward.at("whole").at("peak_bytes").as_integer(), both.at("whole").at("peak_bytes").as_integer());
}

TEST(LmBench, EveryRecomputationIsARowWithTheSameLoss) {
  const Scratch scratch;
  const Program program =
      run_program(std::string(kLmBench) + "--recompute none,attention,block --output out.json", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.errors.find("tiny, context 8, batch 1, fp32, recompute block: "), std::string::npos);
  const Json document = Json::parse(scratch.read("out.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 3u);
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("loss").as_number(), rows[0].at("loss").as_number());
    EXPECT_EQ(row.at("speedup_over_fp32").as_number(), 1) << "relative to the fp32 row with the same recomputation";
    EXPECT_EQ(row.at("flop").as_number(), rows[0].at("flop").as_number());
  }
  EXPECT_EQ(rows[2].at("recompute").as_string(), "block");
}

// Flags override the hyperparameters of a size, and `strobe plan` reads the shape that ran from the row.
TEST(LmBench, FlagsChangeTheSizeAndTheRowsShowIt) {
  const Scratch scratch;
  const std::string changed = " --d-model 16 --d-ff 24 --layers 1 --heads 2 --vocabulary 11 --context 8 --batch 1";
  const std::string few = changed + " --threads 1 --warmup 0 --steps 1";
  const Program bench =
      run_program("lm bench --size tiny,small --arch gpt2 --quick --output bench.json" + few, scratch);
  ASSERT_EQ(bench.code, 0) << bench.errors;
  for (const char* const size : {"tiny", "small"}) {
    const std::string name = std::string(size) + " (gpt2, d_model 16, d_ff 24, layers 1, heads 2, vocabulary 11)";
    EXPECT_NE(bench.output.find("\n" + name + " "), std::string::npos) << bench.output;
    EXPECT_NE(bench.errors.find(name + ", context 8, batch 1, fp32: "), std::string::npos) << bench.errors;
  }
  ASSERT_EQ(run_program("lm profile --size tiny --arch gpt2 --output profile.json" + few, scratch).code, 0);
  const Program memory =
      run_program("lm memory --size tiny --arch gpt2 --threads 1 --output memory.json" + changed, scratch);
  ASSERT_EQ(memory.code, 0) << memory.errors;
  EXPECT_NE(memory.output.find("tiny (gpt2, d_model 16, "), std::string::npos) << memory.output;
  for (const char* const file : {"bench.json", "profile.json", "memory.json"}) {
    const Json document = Json::parse(scratch.read(file));
    for (const Json& row : document.at("rows").as_array()) {
      EXPECT_EQ(row.at("d_model").as_integer(), 16) << file;
      EXPECT_EQ(row.at("d_ff").as_integer(), 24) << file;
      EXPECT_EQ(row.at("layers").as_integer(), 1) << file;
      EXPECT_EQ(row.at("heads").as_integer(), 2) << file;
      EXPECT_EQ(row.at("vocabulary").as_integer(), 11) << file;
      EXPECT_EQ(row.at("parameters").as_integer(), (2 * 11 + 8) * 16 + 4 * 256 + 2 * 16 * 24 + 9 * 16 + 24 + 2 * 16);
    }
  }
  const Program plan = run_program("plan --machine here --bench bench.json --check bench.json", scratch);
  ASSERT_EQ(plan.code, 0) << plan.errors;
  EXPECT_NE(plan.output.find("memory MiB: median error 0.0 % of 2, at most 0.0 %"), std::string::npos) << plan.output;
}

TEST(LmBench, SkippedStepsOfFp16AreCountedAndReported) {
  const Scratch scratch;
  const std::string few = kOverflowing + "--size tiny --steps 3 --output out ";
  const auto skipped_of = [&] {
    const Json document = Json::parse(scratch.read("out"));
    return document.at("rows").as_array().at(0).at("skipped").as_integer();
  };
  const Program bench = run_program("lm bench --quick --warmup 0 " + few, scratch);
  ASSERT_EQ(bench.code, 0) << bench.errors;
  EXPECT_EQ(skipped_of(), 1);
  EXPECT_NE(bench.output.find("fp16: 1 of 3 steps and 0 of the updates had a gradient that overflowed"),
            std::string::npos)
      << bench.output;
  EXPECT_NE(bench.errors.find(" tokens/s, 1 step skipped\n"), std::string::npos) << bench.errors;
  const Program fine = run_program("lm bench --quick --warmup 1 " + few, scratch);
  ASSERT_EQ(fine.code, 0) << fine.errors;
  EXPECT_EQ(skipped_of(), 0);
  EXPECT_EQ((fine.output + fine.errors).find("skipped"), std::string::npos) << fine.output << fine.errors;

  const Program profile = run_program("lm profile --warmup 0 " + few, scratch);
  ASSERT_EQ(profile.code, 0) << profile.errors;
  EXPECT_EQ(skipped_of(), 1);
  EXPECT_NE(profile.output.find("skipped: 1 of 3 steps had a gradient that overflowed"), std::string::npos)
      << profile.output;
}

TEST(LmBench, RejectsInvalidShapes) {
  for (const std::string command : {"lm bench", "lm profile", "lm memory"}) {
    const auto refused = [&](const char* flags, const std::string& part) {
      const Scratch scratch;
      const Program program = run_program(command + " --size tiny " + flags, scratch);
      EXPECT_EQ(program.code, 2) << command << flags;
      EXPECT_EQ(program.errors, "strobe: " + part + "\n");
      EXPECT_EQ(scratch.entries(), 0u) << command << flags;
    };
    refused("--heads 3", "lm: 3 heads do not divide d_model 128");
    refused("--d-model 130 --heads 130",
            "lm: d_model 130 over 130 heads is a head dimension of 1; valid: even, up to 256");
    refused("--layers 100001", "--layers 100001: not a whole number in the valid range 1..100000");
    refused("--layers 1048577", "--layers 1048577: not a whole number in the valid range 1..100000");
    refused("--vocabulary 0", "--vocabulary 0: not a whole number in the valid range 1..1048576");
  }
}

TEST(LmBench, RejectsBadInputBeforeMeasuring) {
  for (const char* const flags :
       {"--size huge", "--precision tf32", "--precision fp8", "--context 0", "--clip -1", "--attention fast",
        "--steps 0", "--device cuda", "--pass backward", "--recompute all"}) {
    const Scratch scratch;
    const Program program = run_program(std::string("lm bench ") + flags, scratch);
    EXPECT_EQ(program.code, 2) << flags << program.errors;
    EXPECT_NE(program.errors.find("valid"), std::string::npos) << program.errors;
    EXPECT_EQ(scratch.entries(), 0u) << flags;
  }
  for (const char* const flags :
       {"--precision fp32,fp32", "--size tiny,tiny", "--batch 1,01", "--warmup 2,2", "--recompute block,block"}) {
    const Program program = run_program(std::string("lm bench ") + flags);
    EXPECT_EQ(program.code, 2) << flags;
    EXPECT_NE(program.errors.find(" is listed twice; valid: each once\n"), std::string::npos) << program.errors;
  }
  EXPECT_EQ(run_program("lm bench --size tiny --attention hopper").errors,  // before ceilings are measured
            "strobe: --attention hopper: not on device cpu; valid: auto, flash2, frugal, standard, reference\n");
  EXPECT_EQ(run_program("lm nothing").code, 2);
  EXPECT_NE(run_program("lm").output.find("bench"), std::string::npos);
}

// A batch of 1048576 exceeds the memory of any machine. The cell must be rejected before any memory is allocated.
TEST(LmBench, ACellThatDoesNotFitIsARowWithItsBytes) {
  const Scratch scratch;
  const std::string flags =
      "lm bench --size tiny --context 1024 --threads 1 --quick --warmup 0 --steps 1 --output out ";
  const Program program = run_program(flags + "--batch 1,1048576", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  const Json document = Json::parse(scratch.read("out"));
  const auto& rows = document.at("rows").as_array();
  EXPECT_EQ(rows.at(0).at("status").as_string(), "ok");
  EXPECT_EQ(rows.at(1).at("status").as_string(), "oom");
  for (const Json& row : rows) {
    EXPECT_GT(row.at("predicted_bytes").as_integer(), row.at("residual_tensor_bytes").as_integer());
    EXPECT_GT(row.at("residual_tensor_bytes").as_integer(), 0);
  }
  const std::string& error = rows.at(1).at("reason").as_string();
  EXPECT_EQ(error.find("cannot allocate "), 0u) << error;
  EXPECT_NE(error.find(" are free"), std::string::npos) << error;

  const std::string before = scratch.read("out");
  const Program none = run_program(flags + "--batch 1048576", scratch);
  EXPECT_EQ(none.code, 3) << none.errors;
  EXPECT_NE(none.errors.find("strobe: lm bench: no cell fits the memory; nothing is written to out\n"),
            std::string::npos)
      << none.errors;
  EXPECT_EQ(scratch.read("out"), before);
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(LmBench, InterruptedLmCommandsReportThatNothingWasWritten) {
  for (const std::string command : {"lm bench", "lm profile", "lm memory"}) {
    const Scratch scratch;
    Background program(command + " --size tiny --context 512 --threads 1 --batch 20,21,22,23,24,25,26,27,28,29,30",
                       scratch, "errors");  // the run would take over a minute
    ASSERT_TRUE(becomes([&] { return program.has_temporary_file(); })) << command;
    pause_for(0.1);
    program.send(SIGTERM);
    EXPECT_EQ(program.wait(), 143) << command;
    const std::string errors = scratch.read("errors");
    EXPECT_TRUE(errors.ends_with("strobe: " + command + ": ended by a signal; nothing was written\n")) << errors;
    EXPECT_EQ(scratch.entries(), 1u) << command;
  }
}

TEST(LmBench, HelpNamesTheValuesOfTheAttentionFlag) {
  const Program program = run_program("lm bench --help");
  for (const char* const name : {"auto", "flash2", "frugal", "standard", "reference"}) {
    EXPECT_NE(program.output.find(name, program.output.find("--attention")), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace strobe::test
