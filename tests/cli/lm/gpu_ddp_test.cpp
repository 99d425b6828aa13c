// Tests `strobe lm train --ddp` and `lm bench --ddp` on ranks that share a GPU, as users run them.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/lm/run.h"
#include "comm/engine.h"
#include "support/gpu.h"

namespace strobe::test {
namespace {

const std::string kEight =
    kSmall + "--device cuda --steps 8 --checkpoint-every 4 --keep 0 --sample-tokens 0 --eps 1e-5 --val-data " + kText +
    " ";

class GpuLmDdp : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  Program run(const std::string& arguments) const { return run_command("'" STROBE_PROGRAM "' " + arguments, scratch_); }
  Program launch(int ranks, const std::string& command) const {
    return run("launch -n " + std::to_string(ranks) + " --grace 60 -- " + command);
  }
  std::string last_checkpoint(const std::string& folder) const {
    return scratch_.read(folder + "/step-00000008.safetensors");
  }
  // Copies the run `from` without its checkpoint of step 8, so that `to` resumes after step 4.
  void copy_half(const std::string& from, const std::string& to) const {
    std::filesystem::copy(scratch_.path() / from, scratch_.path() / to);
    std::filesystem::remove(scratch_.path() / to / "step-00000008.safetensors");
  }
  void expect_losses(const std::string& found, const std::string& wanted) const {
    const std::vector<double> one = losses_in(scratch_, found), other = losses_in(scratch_, wanted);
    ASSERT_EQ(one.size(), 8u) << found;
    ASSERT_EQ(other.size(), 8u) << wanted;
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(one[i], other[i], 1e-5 * other[i]) << found << " " << i;
  }

  const Scratch scratch_;
};

TEST_F(GpuLmDdp, TrainsAsOneProcessAndResumesBitForBit) {
  ASSERT_EQ(run(kEight + "--out one").code, 0);
  const std::string sharded = " --ddp sharded-overlap --bucket-mb 0.02";
  const auto trained = [&](int ranks, const std::string& flags) {
    const Program program = launch(ranks, kEight + flags);
    EXPECT_EQ(program.code, 0) << flags << program.errors;
    return program;
  };
  const Program whole = trained(2, "--out whole" + sharded);
  EXPECT_NE(whole.output.find("[0] device         cuda"), std::string::npos) << whole.output;
  expect_losses("whole", "one");
  trained(2, "--out again" + sharded);
  EXPECT_TRUE(last_checkpoint("again") == last_checkpoint("whole")) << "the bits must be the same in every run";
  copy_half("whole", "same");
  trained(2, "--resume --out same" + sharded);
  EXPECT_TRUE(last_checkpoint("same") == last_checkpoint("whole")) << "the bits must be the same after an interruption";
  copy_half("whole", "unsharded");
  trained(2, "--resume --out unsharded --ddp bucketed --bucket-mb 0.02");
  EXPECT_TRUE(last_checkpoint("unsharded") == last_checkpoint("whole")) << "the same sums, so the same bits";
  copy_half("whole", "four");
  trained(4, "--resume --out four --ddp sharded-rs");
  expect_losses("four", "one");
  copy_half("whole", "alone");
  ASSERT_EQ(run(kEight + "--resume --out alone").code, 0);
  expect_losses("alone", "one");
}

TEST_F(GpuLmDdp, VerifiesAgainstOneProcess) {
  for (const char* strategy : {"naive", "bucketed --bucket-mb 0.02", "sharded-rs --bucket-mb 0.02"}) {
    const Program program = launch(2, kSmall + "--device cuda --verify --ddp " + strategy);
    EXPECT_EQ(program.code, 0) << program.errors << program.output;
    EXPECT_NE(program.output.find("[0] language model: fine: "), std::string::npos) << program.output;
  }
}

TEST_F(GpuLmDdp, VerifiesEveryPrecision) {
  for (const char* precision : {"tf32", "bf16", "fp16"}) {
    const Program program = launch(2, kSmall + "--device cuda --verify --ddp sharded --precision " + precision);
    EXPECT_EQ(program.code, 0) << precision << program.errors << program.output;
    EXPECT_NE(program.output.find("; largest difference from flat: 0.0e+00 (at most 0); all ranks"), std::string::npos)
        << precision << program.output;
  }
}

TEST_F(GpuLmDdp, VerifiesOneRankOverNccl) {
  if (const char* why = comm::why_no_nccl()) GTEST_SKIP() << why;
  const Program program = launch(1, kSmall + "--device cuda --verify --ddp bucketed --engine nccl --bucket-mb 0.02");
  EXPECT_EQ(program.code, 0) << program.errors << program.output;
}

TEST_F(GpuLmDdp, EveryStrategyIsARowOfTheBench) {
  const Program program =
      launch(2,
             "lm bench --device cuda --size tiny --context 64 --batch 4 --warmup 2 --steps 3 --ddp all "
             "--bucket-mb 0.5 --output out.json --trace trace.json");
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json document = Json::parse(scratch_.read("out.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 8u);
  for (const Json& row : rows) {
    const std::string name = row.at("strategy").as_string();
    EXPECT_EQ(row.at("device").as_string(), "cuda");
    EXPECT_EQ(row.at("status").as_string(), "ok") << name;
    EXPECT_NEAR(row.at("loss").as_number(), rows[0].at("loss").as_number(), 1e-4) << name;
    EXPECT_GT(row.at("memory").at("after_step_bytes").as_integer(), 4 * row.at("parameters").as_integer()) << name;
    const auto part = [&](const char* key) { return row.at(std::string("part_") + key).at("mean_s").as_number(); };
    for (const char* key : {"forward", "backward", "optimizer"}) EXPECT_GT(part(key), 0) << name;
    if (name == "one process") continue;  // its phases and `step` are timed in separate steps
    const double parts = part("forward") + part("backward") + part("exposed") + part("optimizer");
    EXPECT_LE(parts, row.at("step").at("mean_s").as_number() * 1.0001) << name;
  }
}

// If one cell does not fit in GPU memory, its rows have the status "oom", and the other cell is measured.
TEST_F(GpuLmDdp, ACellThatDoesNotFitTheGpuHasRows) {
  const Program program =
      launch(2,
             "lm bench --device cuda --ddp flat --size tiny --context 64 --batch 2,1000000 --warmup 0 --steps 1 "
             "--output out.json");
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json document = Json::parse(scratch_.read("out.json"));
  std::vector<std::string> statuses;
  for (const Json& row : document.at("rows").as_array()) statuses.push_back(row.at("status").as_string());
  EXPECT_EQ(statuses, (std::vector<std::string>{"ok", "ok", "oom", "oom"}));
  EXPECT_NE(program.output.find("ranks that share them"), std::string::npos) << program.output;
}

}  // namespace
}  // namespace strobe::test
