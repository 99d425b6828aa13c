// Tests `strobe lm train --resume` as users run it: what it keeps, what it rejects, and which checkpoint it uses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/lm/run.h"

namespace strobe::test {
namespace {

std::vector<std::string> names_in(const Scratch& scratch, const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string checkpoint(int step) { return fmt::format("step-{:08}.safetensors", step); }

TEST(LmResume, RejectsOtherSettingsAndOtherData) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 4 --checkpoint-every 2", scratch).code, 0);
  std::ofstream(scratch.path() / "other.txt") << scratch.read("run/steps.jsonl") << std::string(100, 'x');
  const std::string resume = "lm train --resume --quick --out run --data ";
  expect_refusal(run_program(resume + kText + " --lr 0.5", scratch), 2,
                 "--lr 0.5: the checkpoint was trained with 0.003");
  expect_refusal(run_program(resume + kText + " --layers 3", scratch), 2,
                 "--layers 3: the checkpoint was trained with 2");
  expect_refusal(run_program(resume + kText + " --precision bf16", scratch), 2, "trained with fp32");
  expect_refusal(run_program(resume + "other.txt", scratch), 2, "the checkpoint was trained on 3416 (format text");
  expect_refusal(run_program(resume + kText + " --data-format tokens", scratch), 2, "holds 1708 tokens (format tokens");
  expect_refusal(run_program(resume + kText + " --size small", scratch), 2,
                 "--size small: the checkpoint was trained with llama, d_model 32, d_ff 64, layers 2, heads 4");
  expect_refusal(run_program(resume + kText + " --steps 3", scratch), 2,
                 "--steps 3: the checkpoint is at step 4; valid: that many or more");
  expect_refusal(run_program("lm train --quick --out run --data " + kText + " --resume=3", scratch), 2,
                 "--out run: has no checkpoint of step 3; valid: 2, 4");
  const Program longer = run_program(resume + kText + " --steps 6", scratch);
  EXPECT_EQ(longer.code, 0) << longer.errors;
  EXPECT_NE(longer.output.find("note: --steps 6 instead of 4"), std::string::npos) << longer.output;
  EXPECT_EQ(losses_in(scratch, "run").size(), 6u);
}

TEST(LmResume, NamesACorruptCheckpointAndTheNewestIntactOne) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 6 --checkpoint-every 2", scratch).code, 0);
  const std::string whole = scratch.read("run/step-00000006.safetensors");
  std::filesystem::resize_file(scratch.path() / "run" / "step-00000006.safetensors", whole.size() - 1);
  std::fstream(scratch.path() / "run" / "step-00000004.safetensors", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(20000)
      .put('!');
  const std::string resume = "lm train --quick --out run --data " + kText + " --resume";
  const Program refused = run_program(resume, scratch);
  expect_refusal(refused, 2, "run/step-00000006.safetensors: its header: its tensors have");
  EXPECT_NE(refused.errors.find("that of step 2: --resume=2 continues from there"), std::string::npos)
      << refused.errors;
  expect_refusal(run_program(resume + "=4", scratch), 2, "is corrupt");
  const Program taken = run_program(resume + "=2", scratch);
  EXPECT_EQ(taken.code, 0) << taken.errors;
  EXPECT_NE(taken.output.find("note: 2 later checkpoints renamed to run/step-00000004.safetensors.abandoned and "
                              "so on, up to step 6\n"),
            std::string::npos)
      << taken.output;
  EXPECT_EQ(scratch.read("run/step-00000006.safetensors"), whole);
}

// Run options, such as --checkpoint-every, also apply to resumed runs unless a flag changes them.
TEST(LmResume, KeepsTheRunOptions) {
  const Scratch scratch;
  std::filesystem::copy(kText, scratch.path() / "other.txt");
  const std::string flags = "--checkpoint-every 2 --keep 0 --val-data other.txt --val-every 3 --val-tokens 32 ";
  ASSERT_EQ(run_program(kSmall + flags + "--out run --steps 12", scratch).code, 0);
  ASSERT_EQ(run_program(kSmall + flags + "--out whole --steps 12", scratch).code, 0);
  std::filesystem::remove(scratch.path() / "run" / checkpoint(12));
  std::filesystem::remove(scratch.path() / "run" / checkpoint(10));
  std::filesystem::remove(scratch.path() / "run" / checkpoint(8));
  std::filesystem::remove(scratch.path() / "run" / checkpoint(6));
  const std::string resume = "lm train --resume --quick --out run --data " + kText;
  const Program program = run_program(resume, scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(names_in(scratch, "run"), names_in(scratch, "whole"));
  EXPECT_EQ(scratch.read("run/" + checkpoint(12)), scratch.read("whole/" + checkpoint(12)));
  for (const char* step : {"6", "9", "12"}) {
    EXPECT_NE(program.output.find(std::string("step ") + step + ": validation loss "), std::string::npos) << step;
  }
  EXPECT_EQ(program.output.find("step 8: validation loss "), std::string::npos);

  ASSERT_EQ(run_program(resume + " --steps 20 --keep 1 --checkpoint-every 5 --val-data none", scratch).code, 0);
  EXPECT_EQ(names_in(scratch, "run"), (std::vector<std::string>{"run.json", checkpoint(20), "steps.jsonl"}));
  std::filesystem::remove(scratch.path() / "other.txt");
  EXPECT_EQ(run_program(resume, scratch).code, 0) << "without validation data the file is not needed";
  expect_refusal(run_program("lm train --resume --quick --out whole --data " + kText, scratch), 2,
                 "the run's --val-data other.txt: cannot be read");
  expect_refusal(run_program(resume + " --val-every 2", scratch), 2, "--val-every 2: there is no validation data");
}

TEST(LmResume, FromAnEarlierStepSetsLaterCheckpointsAside) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 8 --checkpoint-every 2 --keep 0", scratch).code, 0);
  const std::string resume = "lm train --quick --sample-tokens 0 --out run --data " + kText + " --resume";
  const std::string eighth = scratch.read("run/" + checkpoint(8));
  ASSERT_EQ(run_program(resume + "=4 --steps 5 --seed 1", scratch).code, 0);
  EXPECT_EQ(names_in(scratch, "run"),
            (std::vector<std::string>{"run.json", checkpoint(2), checkpoint(4), checkpoint(5),
                                      checkpoint(6) + ".abandoned", checkpoint(8) + ".abandoned", "steps.jsonl"}));
  EXPECT_EQ(scratch.read("run/" + checkpoint(8) + ".abandoned"), eighth) << "nothing is lost";
  EXPECT_EQ(losses_in(scratch, "run").size(), 5u);
  const Program newest = run_program(resume + " --steps 6", scratch);
  EXPECT_NE(newest.output.find("note: resumes after step 5\n"), std::string::npos) << newest.output;
  ASSERT_EQ(run_program(resume + "=4", scratch).code, 0);
  const std::vector<std::string> names = names_in(scratch, "run");
  EXPECT_EQ(std::count(names.begin(), names.end(), checkpoint(6) + ".abandoned.2"), 1) << "nor overwritten";
}

// The newest checkpoint is damaged. The user resumes from an older one; that run ends early and is resumed again.
TEST(LmResume, AfterDamageResumesTheNewRun) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 8 --checkpoint-every 2 --keep 0", scratch).code, 0);
  std::filesystem::resize_file(scratch.path() / "run" / checkpoint(8), 1000);
  const std::string resume = "lm train --quick --sample-tokens 0 --out run --data " + kText + " --resume";
  ASSERT_EQ(run_program(resume + "=2 --steps 5", scratch).code, 0);
  const Program rest = run_program(resume + " --steps 8", scratch);
  ASSERT_EQ(rest.code, 0) << rest.errors;
  EXPECT_NE(rest.output.find("note: resumes after step 5\n"), std::string::npos) << rest.output;
}

// Checkpoints contain only the training state; run options are stored in run.json.
TEST(LmResume, CheckpointBytesDoNotDependOnRunOptions) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out one --steps 4", scratch).code, 0);
  const std::string others = "--checkpoint-every 1 --keep 2 --val-data " + kText + " --val-every 3 --val-tokens 32 ";
  ASSERT_EQ(run_program(kSmall + others + "--out other --steps 4", scratch).code, 0);
  EXPECT_EQ(scratch.read("one/" + checkpoint(4)), scratch.read("other/" + checkpoint(4)));
  EXPECT_NE(scratch.read("one/run.json"), scratch.read("other/run.json"));
}

TEST(LmResume, RejectsADamagedRunJsonAndWithoutOneUsesDefaults) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 6 --checkpoint-every 1 --keep 0", scratch).code, 0);
  const std::string resume = "lm train --resume --quick --sample-tokens 0 --out run --data " + kText;
  std::ofstream(scratch.path() / "run" / "run.json") << "{\"keep\":";
  const std::vector<std::string> before = names_in(scratch, "run");
  const Program damaged = run_program(resume + " --steps 8 --keep 0", scratch);
  expect_refusal(damaged, 2, "run/run.json: is damaged: ");
  EXPECT_NE(damaged.errors.find("; remove it and give --checkpoint-every, --keep"), std::string::npos);
  EXPECT_EQ(names_in(scratch, "run"), before);
  std::filesystem::remove(scratch.path() / "run" / "run.json");
  const Program missing = run_program(resume + " --steps 8", scratch);
  ASSERT_EQ(missing.code, 0) << missing.errors;
  EXPECT_EQ(missing.errors, "");
  EXPECT_EQ(missing.output.find("run.json"), std::string::npos) << missing.output;
  EXPECT_EQ(names_in(scratch, "run"),
            (std::vector<std::string>{"run.json", checkpoint(5), checkpoint(6), checkpoint(8), "steps.jsonl"}));
}

// The folder is as after a kill between writing run.json and the first checkpoint. Training starts over with the same
// options.
TEST(LmResume, BeforeTheFirstCheckpointKeepsTheRunOptions) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 4 --checkpoint-every 1 --keep 0", scratch).code, 0);
  for (int step = 1; step <= 4; ++step) std::filesystem::remove(scratch.path() / "run" / checkpoint(step));
  std::filesystem::remove(scratch.path() / "run" / "steps.jsonl");
  const Program again = run_program(kSmall + "--out run --steps 4 --resume", scratch);
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.output.find("note: no checkpoint in run yet: starts at step 0\n"), std::string::npos);
  EXPECT_EQ(names_in(scratch, "run").size(), 6u) << "run.json, the log and four checkpoints";
}

TEST(LmResume, RejectsFewerStepsThanTheWarmUp) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 8 --lr-warmup 6 --checkpoint-every 2 --keep 0", scratch).code, 0);
  expect_refusal(run_program("lm train --quick --out run --resume=2 --steps 5 --data " + kText, scratch), 2,
                 "--steps 5: the checkpoint's warm-up has 6 steps; valid: that many or more");
  EXPECT_EQ(names_in(scratch, "run").size(), 6u) << "a rejected command renames no checkpoint";
}

}  // namespace
}  // namespace strobe::test
