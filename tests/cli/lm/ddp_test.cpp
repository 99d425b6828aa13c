// Tests `strobe lm train --ddp` as users run it, on several ranks: results close to those of one process on the whole
// batch, and checkpoints that other numbers of ranks can resume. ddp_faults_test.cpp tests failing ranks.
#include "cli/lm/ddp_run.h"

namespace strobe::test {
namespace {

TEST_F(LmDdp, MatchesOneProcessOnTheWholeBatch) {
  ASSERT_EQ(run_program(kSmall + kSteps8 + "--val-data " + kText + " --out one", scratch_).code, 0);
  const auto expect_match = [&](int ranks, const std::string& ddp) {
    const std::string out = "out" + std::to_string(scratch_.entries());
    const Program program = train(ranks, "--val-data " + kText + " --out " + out + " --ddp " + ddp);
    ASSERT_EQ(program.code, 0) << program.errors;
    EXPECT_EQ(program.output.find("[1]"), std::string::npos) << "only rank 0 prints: " << program.output;
    EXPECT_NE(program.output.find(fmt::format("[0] ranks          {}, ", ranks)), std::string::npos) << program.output;
    EXPECT_NE(program.output.find("step 4: validation loss "), std::string::npos) << program.output;
    expect_close(out, "one", 1e-5);
  };
  expect_match(2, "naive");
  expect_match(2, "bucketed --bucket-mb 0.02");
  expect_match(4, "overlap");
  expect_match(4, "sharded-rs --bucket-mb 0.02");
}

TEST_F(LmDdp, ResumesBitForBitOnTheSameRanksAndCloselyOnOthers) {
  ASSERT_EQ(train(2, "--ddp sharded-overlap --bucket-mb 0.02 --out whole").code, 0);
  const auto resume = [&](int ranks, const std::string& ddp, const std::string& out) {
    copy_half("whole", out);
    const Program program = train(ranks, "--resume --out " + out + ddp);
    EXPECT_EQ(program.code, 0) << program.errors;
    EXPECT_NE(program.output.find("[0] note: resumes after step 4\n"), std::string::npos) << program.output;
  };
  resume(2, " --ddp sharded-overlap --bucket-mb 0.02", "same");
  EXPECT_TRUE(bytes("same", 8) == bytes("whole", 8));
  EXPECT_EQ(losses_in(scratch_, "same"), losses_in(scratch_, "whole"));
  resume(2, " --ddp bucketed --bucket-mb 0.02", "unsharded");
  EXPECT_TRUE(bytes("unsharded", 8) == bytes("whole", 8)) << "the same sums, so the same bits";
  resume(4, " --ddp sharded-rs", "four");
  expect_close("four", "whole", 1e-5);
  resume(1, "", "one");
  expect_close("one", "whole", 1e-5);

  // Ranks resume a run of one process.
  copy_half("one", "again");
  const Program program = train(2, "--resume --out again --ddp sharded");
  EXPECT_EQ(program.code, 0) << program.errors;
  expect_close("again", "whole", 1e-5);
}

TEST_F(LmDdp, LogsTheTimeOfEachPartOfAStep) {
  const auto splits = [&](const std::string& ddp, const std::string& out) {
    const Program program = launch(2, kSmall + "--steps 3 --sample-tokens 0 --out " + out + " --ddp " + ddp);
    EXPECT_EQ(program.code, 0) << program.errors;
    std::vector<Json> found;
    std::istringstream lines(scratch_.read(out + "/steps.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      const Json split = row.at("split");
      const auto seconds = [&](const char* key) { return split.at(key).as_number(); };
      constexpr double kRounding = 1e-9;
      for (const char* key : {"forward", "backward", "exposed", "optimizer"}) EXPECT_GT(seconds(key), 0) << key << line;
      EXPECT_LE(seconds("hidden"), seconds("backward") + kRounding) << line;
      EXPECT_LE(seconds("forward") + seconds("backward") + seconds("exposed") + seconds("optimizer"),
                row.at("seconds").as_number() + kRounding)
          << line;
      found.push_back(split);
    }
    EXPECT_EQ(found.size(), 3u) << out;
    return found;
  };
  const std::vector<Json> naive = splits("naive", "one-by-one"), shared = splits("sharded-overlap", "shared");
  const lm::ModelShape shape = lm::Checkpoint(scratch_.path() / "shared" / checkpoint(3)).settings().shape;
  const std::int64_t bytes = 4 * lm::parameter_count(shape);
  for (const Json& split : naive) {
    EXPECT_EQ(split.at("calls").as_integer(), static_cast<std::int64_t>(lm::parameter_table(shape).size()));
    EXPECT_EQ(split.at("bytes").as_integer(), bytes);
    EXPECT_EQ(split.at("hidden").as_number(), 0);
  }
  for (const Json& split : shared) {  // everything fits into one bucket: one reduction, one all-gather
    EXPECT_EQ(split.at("calls").as_integer(), 2);
    EXPECT_EQ(split.at("bytes").as_integer(), 2 * bytes);
  }
}

TEST_F(LmDdp, RejectsFlagsThatRanksDoNotSupport) {
  const std::string flags = kSmall + kSteps8 + "--out run ";
  const auto refused = [&](const std::string& more, const std::string& says, const std::string& before = "") {
    expect_refusal(run_program(flags + more, scratch_, before), 2, "strobe: " + says);
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "run"));
  };
  refused("", "lm train: 2 ranks without --ddp; valid: --ddp naive|", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
  refused("--ddp flat --bucket-mb 0.0000045",
          "--bucket-mb 0.0000045: --ddp flat has no buckets; valid with bucketed, ");
  refused("--ddp bucketed --bucket-mb 0",
          "--bucket-mb 0: not a number in the valid range: at least 0.000004, below 1000000");
  refused("--ddp flat --device cuda", "--device cuda: ");  // run_program() hides all GPUs
  refused("--ddp flat --engine nccl --device cpu", "--engine nccl: ");
  refused("--ddp flat --engine ring", "--engine ring: valid: auto, mpi, nccl");
  refused("--engine mpi", "--engine: nothing is exchanged without --ddp");
  refused("--ddp none", "--ddp none: valid: naive, flat, overlap");
  refused("--bucket-mb 3", "--bucket-mb 3: without --ddp");
  refused("--verify", "--verify: compares ranks with one process; valid with --ddp");
  refused("--verify --ddp flat", "--out: --verify writes no checkpoint");
  const Program odd = launch(3, flags + "--ddp flat");
  EXPECT_EQ(odd.code, 2) << odd.errors;
  EXPECT_EQ(
      odd.errors,
      "strobe: launch: all 3 ranks: a batch of 4 sequences on 3 ranks; valid: a multiple of the number of ranks\n");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "run"));
  std::filesystem::create_directories(scratch_.path() / "run" / "another's");
  const Program taken = launch(2, flags + "--ddp flat");  // only rank 0 checks the folder
  EXPECT_EQ(taken.code, 2);
  EXPECT_TRUE(taken.errors.starts_with("strobe: launch: all 2 ranks: --out run: is not empty; ")) << taken.errors;
}

TEST_F(LmDdp, VerifiesAgainstOneProcess) {
  const auto verified = [&](int ranks, const std::string& flags) {
    const Program program = launch(ranks, kSmall + "--verify --ddp " + flags);
    EXPECT_EQ(program.code, 0) << program.errors << program.output;
    return program.output;
  };
  const std::string bucketed = verified(2, "bucketed --bucket-mb 0.02");
  for (const char* part : {"[0]    5  ", "[0] layers.1.attention.q.weight ", "[0] fc1.bias ",
                           "[0] language model: fine: ", "[0] toy MLP with biases: fine: "}) {
    EXPECT_NE(bucketed.find(part), std::string::npos) << part << bucketed;
  }
  const std::string sharded = verified(4, "sharded --steps 3");
  EXPECT_NE(sharded.find("; largest difference from flat: 0.0e+00 (at most 0); all ranks"), std::string::npos)
      << sharded;
  EXPECT_NE(verified(2, "sharded-rs --bucket-mb 0.02 --steps 3").find("largest difference from bucketed: "),
            std::string::npos);
  const std::string gpt2 = verified(2, "bucketed --bucket-mb 0.02 --arch gpt2");
  EXPECT_NE(gpt2.find("[0] layers.1.attention.k.bias "), std::string::npos) << gpt2;
  for (const char* precision : {"bf16", "fp16"}) {
    const std::string low = verified(2, std::string("sharded --steps 3 --precision ") + precision);
    EXPECT_NE(low.find(" (at most 0.002), "), std::string::npos) << low;
    EXPECT_NE(low.find("; largest difference from flat: 0.0e+00 (at most 0); all ranks"), std::string::npos) << low;
  }
  EXPECT_EQ(scratch_.entries(), 0u) << "nothing is written";
}

}  // namespace
}  // namespace strobe::test
