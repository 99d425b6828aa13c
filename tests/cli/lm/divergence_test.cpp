// Tests runs of `strobe lm train` that diverge: training can resume from a good checkpoint.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "cli/lm/ddp_run.h"
#include "cli/lm/run.h"
#include "lm/train/trainer.h"

namespace strobe::test {
namespace {

// With this learning rate the loss of step 3 is NaN: the checkpoint of step 1 is good, that of step 2 is not.
const std::string kRun = "lm train --data " + kText + " --out run --threads 1 --quick --sample-tokens 0 --clip 0 ";
const std::string kWild = kRun + "--d-model 32 --d-ff 64 --layers 2 --heads 4 --context 32 --batch 4 --lr 999999 ";
const std::string kDiverging = kWild + "--checkpoint-every 1 --keep 1 ";
const std::string kResume = "lm train --data " + kText + " --out run --threads 1 --quick --sample-tokens 0 ";

std::vector<std::string> checkpoints_in(const Scratch& scratch) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "run")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-"))
      names.push_back(name.substr(0, name.find(".safetensors")) + entry.path().extension().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(LmDivergence, LeavesTheLastGoodCheckpoint) {
  const Scratch scratch;
  const Program diverged = run_program(kDiverging + "--steps 20", scratch);
  expect_refusal(diverged, 3, "step 3: the loss is nan");
  EXPECT_NE(diverged.errors.find("run/step-00000001.safetensors is the newest checkpoint known to be good, 1 later one "
                                 "set aside as .abandoned: --resume=1 --lr 99999.9 continues there\n"),
            std::string::npos)
      << diverged.errors;
  EXPECT_EQ(checkpoints_in(scratch), (Names{"step-00000001.safetensors", "step-00000002.abandoned"}));

  // --resume repeats the run bit for bit, with the same learning rate.
  expect_refusal(run_program(kResume + "--resume --lr 0.001", scratch), 2, "; --resume=STEP may change it");
  expect_refusal(run_program(kResume + "--resume", scratch), 3, "step 3: the loss is nan");

  const Program resumed = run_program(kResume + "--resume=1 --lr 0.001", scratch);
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("note: --lr 0.001 instead of 999999 for the remaining steps\n"), std::string::npos);
  EXPECT_NE(resumed.output.find("note: --lr-min 0.0001 instead of 99999.9 for the remaining steps\n"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "run/step-00000020.safetensors"));
}

// The newest checkpoint has bad parameters, as one saved on a signal may have. The first step after it diverges.
TEST(LmDivergence, ResumedFromABadCheckpointNamesAnOlderOne) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kDiverging + "--steps 20", scratch).code, 3);
  std::filesystem::rename(scratch.path() / "run/step-00000002.safetensors.abandoned",
                          scratch.path() / "run/step-00000002.safetensors");
  expect_refusal(run_program(kResume + "--resume", scratch), 3, "--resume=1 --lr 99999.9 continues there\n");
  EXPECT_EQ(checkpoints_in(scratch), (Names{"step-00000001.safetensors", "step-00000002.abandoned"}));
}

// No step follows the last one, so one forward pass checks its parameters before they are saved.
TEST(LmDivergence, BadParametersOfTheLastStepAreNotSaved) {
  const Scratch scratch;
  expect_refusal(run_program(kDiverging + "--steps 2 --lr-warmup 1", scratch), 3,
                 "after the last step (2), the loss of the next batch is nan; run/step-00000001.safetensors is the "
                 "newest checkpoint");
  EXPECT_EQ(checkpoints_in(scratch), Names{"step-00000001.safetensors"});
}

// The path of the checkpoint is valid, but exceeds PATH_MAX with .abandoned appended.
TEST(LmDivergence, ACheckpointThatCannotBeRenamedDoesNotHideTheReason) {
  const Scratch scratch;
  constexpr std::size_t kOutBytes = 4065;  // "/step-00000002.safetensors" fits PATH_MAX; with ".abandoned" it does not
  std::string out = "run";
  while (out.size() + 201 < kOutBytes) out += "/" + std::string(200, 'x');
  out += "/" + std::string(kOutBytes - out.size() - 1, 'x');
  std::string command = kDiverging + "--steps 20";
  command.replace(command.find("--out run"), 9, "--out " + out);
  const Program diverged = run_program(command, scratch);
  expect_refusal(diverged, 3, "step 3: the loss is nan");
  EXPECT_NE(diverged.errors.find("known to be good, later ones stay ("), std::string::npos) << diverged.errors;
  EXPECT_NE(diverged.errors.find(": File name too long): --resume=1 --lr"), std::string::npos) << diverged.errors;
}

TEST(LmDivergence, ReportsThatNoCheckpointIsGood) {
  const Scratch scratch;
  expect_refusal(run_program(kWild + "--steps 20 --checkpoint-every 2 --keep 1", scratch), 3,
                 "; no checkpoint is known to be good, 1 set aside as .abandoned: train in another folder with "
                 "a lower --lr");
  EXPECT_EQ(checkpoints_in(scratch), Names{"step-00000002.abandoned"});
}

TEST(LmDivergence, AFiniteLossFarAboveAUniformGuessIsReportedOnce) {
  const Scratch scratch;
  const std::string run = kRun + "--d-model 32 --d-ff 64 --layers 2 --heads 4 --context 32 --batch 4 --steps 5 --lr ";
  const Program exploded = run_program(run + "10", scratch);
  EXPECT_EQ(exploded.code, 0) << exploded.errors;
  const std::size_t first = exploded.output.find("note: step 2: the loss explodes: ");
  ASSERT_NE(first, std::string::npos) << exploded.output;
  EXPECT_EQ(exploded.output.find("the loss explodes", first + 20), std::string::npos);
  const Scratch other;
  EXPECT_EQ(run_program(run + "0.001", other).output.find("explodes"), std::string::npos);
}

// A lower loss scale does not make a NaN loss finite, so a step with a NaN loss ends the run and is not skipped.
TEST(LmDivergence, Fp16StopsAtTheFirstNanLoss) {
  const Scratch scratch;
  const Program diverged =
      run_program(kRun +
                      "--d-model 16 --d-ff 24 --layers 1 --heads 2 --context 8 --batch 1 --precision fp16 --lr 1000 "
                      "--lr-warmup 10000 --steps 10000 --checkpoint-every 1 --keep 1",
                  scratch);
  expect_refusal(diverged, 3, " is the newest checkpoint known to be good, 1 later one set aside as .abandoned");
  EXPECT_NE(diverged.errors.find("the loss is nan"), std::string::npos) << diverged.errors;
  EXPECT_NE(diverged.errors.find("(fp16 overflows above 65504; --precision bf16 has the range of fp32)"),
            std::string::npos);
  EXPECT_EQ(diverged.output.find("loss nan"), std::string::npos) << "a step without a finite loss was taken";
  EXPECT_NE(diverged.output.find("loss scale now 32768\n"), std::string::npos)
      << "a step whose gradient overflows is skipped";
  const std::vector<std::string> names = checkpoints_in(scratch);
  ASSERT_EQ(names.size(), 2u);
  const lm::Checkpoint good((scratch.path() / "run" / names[0]).string());
  const lm::TokenFile data(kText, lm::DataFormat::text, "--data");
  lm::Trainer trainer(good.settings(), data, 1);
  trainer.resume(good);
  const lm::TrainStep next = trainer.step();
  EXPECT_TRUE(std::isfinite(next.loss) && !next.skipped) << next.loss;
}

TEST_F(LmDdp, DivergedRunLeavesTheLastGoodCheckpoint) {
  const Program diverged = launch(2, kDiverging + "--steps 20 --ddp sharded");
  EXPECT_EQ(diverged.code, 3) << diverged.errors;
  EXPECT_NE(diverged.errors.find("run/step-00000001.safetensors is the newest checkpoint known to be good"),
            std::string::npos)
      << diverged.errors;
  // Rank 0 prints the error for all ranks, so no rank has ended before rank 0 renamed the checkpoints.
  const std::size_t first = diverged.errors.find("the loss is nan");
  EXPECT_EQ(diverged.errors.find("the loss is nan", first + 1), std::string::npos) << diverged.errors;
  EXPECT_EQ(diverged.errors.find("gave up"), std::string::npos) << diverged.errors;
  EXPECT_EQ(checkpoints_in(scratch_), (Names{"step-00000001.safetensors", "step-00000002.abandoned"}));
  const Program resumed = launch(2, kResume + "--resume=1 --lr 0.001 --ddp sharded");
  EXPECT_EQ(resumed.code, 0) << resumed.errors;
}

}  // namespace
}  // namespace strobe::test
