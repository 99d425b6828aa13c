// Tests `strobe lm train` after a restart by `strobe launch`: it resumes the run of its own job, and no other run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/lm/run.h"

namespace strobe::test {
namespace {

class LmRestart : public testing::Test {
 protected:
  // Trains with the variables that `strobe launch` sets in a job that it has restarted `restarts` times.
  Program train(const std::string& job, int restarts, const std::string& flags) const {
    return run_program(kSmall + "--checkpoint-every 4 --keep 0 --sample-tokens 0 --out run " + flags, scratch_,
                       "STROBE_JOB=" + job + " STROBE_RESTARTS=" + std::to_string(restarts));
  }

  std::filesystem::path file(const std::string& name) const { return scratch_.path() / "run" / name; }

  void cut(const std::string& name) const {
    std::filesystem::resize_file(file(name), std::filesystem::file_size(file(name)) / 2);
  }

  const Scratch scratch_;
};

const std::string kStep4 = "step-00000004.safetensors", kStep8 = "step-00000008.safetensors";

TEST_F(LmRestart, DoesNotTakeOverAnotherRun) {
  ASSERT_EQ(run_program(kSmall + "--sample-tokens 0 --steps 4 --out run", scratch_).code, 0);
  const std::string before = scratch_.read("run/" + kStep4);
  expect_refusal(train("mine", 1, "--steps 8"), 2, "--out run: is not empty; ");
  ASSERT_EQ(train("other", 0, "--steps 4 --resume").code, 0);
  expect_refusal(train("mine", 1, "--steps 8"), 2, "--out run: is not empty; ");
  std::filesystem::remove(file("run.json"));
  expect_refusal(train("mine", 1, "--steps 8"), 2, "--out run: is not empty; ");
  EXPECT_EQ(scratch_.read("run/" + kStep4), before);
  EXPECT_FALSE(std::filesystem::exists(file(kStep8)));
}

// The first start of the launcher's job ends before it opens the folder. The restart must not resume the run there,
// which belongs to another job.
TEST_F(LmRestart, RestartByTheLauncherDoesNotTakeOverAnotherRun) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  ASSERT_EQ(run_program("launch -n 1 -- " + kSmall + "--sample-tokens 0 --steps 4 --out run", scratch_).code, 0);
  std::ofstream(scratch_.path() / "rank.sh") << "#!/bin/sh\n[ $STROBE_RESTARTS = 0 ] && exit 9\nexec '" STROBE_PROGRAM
                                                "' " +
                                                    kSmall + "--sample-tokens 0 --steps 4 --out $1\n";
  std::filesystem::permissions(scratch_.path() / "rank.sh", std::filesystem::perms::owner_all);
  const Program refused = run_program("launch -n 1 --max-restarts 3 --restart-delay 0 -- ./rank.sh run", scratch_);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.errors.find("[0] strobe: --out run: is not empty; "), std::string::npos) << refused.errors;
  EXPECT_EQ(run_program("launch -n 1 --max-restarts 3 --restart-delay 0 -- ./rank.sh own", scratch_).code, 0);
}

TEST_F(LmRestart, StartsFromScratchIfThereIsNoCheckpoint) {
  ASSERT_EQ(train("mine", 1, "--steps 4").code, 0);
  const std::string whole = scratch_.read("run/" + kStep4);
  // State after the program was killed while it wrote its first file.
  std::filesystem::remove_all(scratch_.path() / "run");
  std::filesystem::create_directory(scratch_.path() / "run");
  std::ofstream(file("run.json.strobe-tmp-AbCdEf")) << "{";
  const Program again = train("mine", 2, "--steps 4");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(scratch_.read("run/" + kStep4), whole);
  EXPECT_FALSE(std::filesystem::exists(file("run.json.strobe-tmp-AbCdEf")));
  // State after the program was killed before its first checkpoint.
  std::filesystem::remove(file(kStep4));
  const Program third = train("mine", 3, "--steps 4");
  ASSERT_EQ(third.code, 0) << third.errors;
  EXPECT_NE(third.output.find("note: no checkpoint in run yet: starts at step 0\n"), std::string::npos);
  EXPECT_EQ(scratch_.read("run/" + kStep4), whole);
}

// --resume=STEP applies to the first start of a job that begins training. Later starts resume from the newest
// checkpoint.
TEST_F(LmRestart, ResumesFromTheNewestCheckpointDespiteResumeFlag) {
  ASSERT_EQ(train("older", 0, "--steps 8").code, 0);
  // Start 0 of the job `mine` ended before training began.
  const Program begun = train("mine", 1, "--steps 8 --resume=4");
  ASSERT_EQ(begun.code, 0) << begun.errors;
  EXPECT_NE(begun.output.find("note: resumes after step 4\n"), std::string::npos) << begun.output;
  EXPECT_TRUE(std::filesystem::exists(file(kStep8 + ".abandoned")));
  const Program again = train("mine", 2, "--steps 8 --resume=4");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.output.find("note: resumes after step 8\n"), std::string::npos) << again.output;
  EXPECT_FALSE(std::filesystem::exists(file(kStep8 + ".abandoned.2")));

  cut(kStep8);
  expect_refusal(train("mine", 0, "--steps 8 --resume"), 2, "--resume=4 continues from there");
  const Program third = train("mine", 3, "--steps 8 --resume");
  ASSERT_EQ(third.code, 0) << third.errors;
  EXPECT_NE(third.output.find("note: skipped: checkpoint run/" + kStep8), std::string::npos) << third.output;
  EXPECT_EQ(scratch_.read("run/" + kStep8), scratch_.read("run/" + kStep8 + ".abandoned"));
}

TEST_F(LmRestart, DoesNotReplaceCheckpointsThatItCannotRead) {
  ASSERT_EQ(train("mine", 0, "--steps 8").code, 0);
  const std::string log = scratch_.read("run/steps.jsonl");
  for (const std::string& name : {kStep4, kStep8}) cut(name);
  expect_refusal(train("mine", 1, "--steps 8"), 2,
                 "--out run: none of its checkpoints can be read, the newest: checkpoint run/" + kStep8);
  for (const std::string& name : {kStep4, kStep8}) EXPECT_TRUE(std::filesystem::exists(file(name)));
  EXPECT_EQ(scratch_.read("run/steps.jsonl"), log);
}

}  // namespace
}  // namespace strobe::test
