// `strobe lm train --ddp` as a user runs it: on real ranks, beside one process on the whole batch, with checkpoints
// that any number of ranks goes on from, and with ranks that differ, are killed or told to stop.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "cli/lm_run.h"
#include "comm/engine.h"
#include "lm/checkpoint.h"
#include "lm/checkpoint_folder.h"

namespace strobe::test {
namespace {

const std::string kSteps8 = "--steps 8 --checkpoint-every 4 --keep 0 --sample-tokens 0 --eps 1e-5 ";

std::string checkpoint(std::int64_t step) { return fmt::format("step-{:08}.safetensors", step); }

class LmDdp : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  // grace: long, so that on a busy machine too each rank ends by itself.
  Program launch(int ranks, const std::string& command, const std::string& flags = "") const {
    return run_program(fmt::format("launch -n {} --grace 60 {} -- {}", ranks, flags, command), scratch_);
  }
  Program train(int ranks, const std::string& flags) const { return launch(ranks, kSmall + kSteps8 + flags); }

  // A program of all ranks that ends as `strobe lm train` with these flags; `before` runs first.
  std::string script(const std::string& before, const std::string& flags) const {
    std::ofstream(scratch_.path() / "rank.sh") << "#!/bin/sh\nrank=$OMPI_COMM_WORLD_RANK\n"
                                               << before << "\nexec '" STROBE_PROGRAM "' " << kSmall << flags << "\n";
    std::filesystem::permissions(scratch_.path() / "rank.sh", std::filesystem::perms::owner_all);
    return "./rank.sh";
  }

  // A copy of the run `from` as it was after 4 of its 8 steps.
  void copy_half(const std::string& from, const std::string& to) const {
    std::filesystem::copy(scratch_.path() / from, scratch_.path() / to);
    std::filesystem::remove(scratch_.path() / to / checkpoint(8));
  }

  std::vector<double> column(const std::string& folder, const char* key) const {
    std::vector<double> values;
    std::istringstream lines(scratch_.read(folder + "/steps.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row.find(key)) values.push_back(row.at(key).as_number());
    }
    return values;
  }

  std::string bytes(const std::string& folder, std::int64_t step) const {
    return scratch_.read(folder + "/" + checkpoint(step));
  }

  // Losses and every state of the 8th step, each tensor by its norm.
  void expect_close(const std::string& found, const std::string& wanted, double most) const {
    for (const char* key : {"loss", "gradient_norm", "validation_loss"}) {
      const std::vector<double> one = column(found, key), other = column(wanted, key);
      ASSERT_EQ(one.size(), other.size()) << key;
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], most * other[i]) << found << key << i;
    }
    const lm::Checkpoint one(scratch_.path() / found / checkpoint(8)), other(scratch_.path() / wanted / checkpoint(8));
    EXPECT_EQ(one.settings(), other.settings());
    EXPECT_EQ(one.progress(), other.progress());
    for (const lm::State which : {lm::State::values, lm::State::mean, lm::State::variance}) {
      for (const lm::Parameter& parameter : lm::parameter_table(one.settings().shape)) {
        double squares = 0, differences = 0;
        for (std::int64_t i = parameter.first; i < parameter.first + parameter.count(); ++i) {
          const double x = one.state(which)[static_cast<std::size_t>(i)];
          const double y = other.state(which)[static_cast<std::size_t>(i)];
          squares += y * y;
          differences += (x - y) * (x - y);
        }
        EXPECT_LE(std::sqrt(differences), most * std::sqrt(squares)) << found << ": " << parameter.name;
      }
    }
  }

  const Scratch scratch_;
};

TEST_F(LmDdp, EqualsOneProcessOnTheWholeBatch) {
  ASSERT_EQ(run_program(kSmall + kSteps8 + "--val-data " + kText + " --out one", scratch_).code, 0);
  const auto expect_equal = [&](int ranks, const std::string& ddp) {
    const std::string out = "out" + std::to_string(scratch_.entries());
    const Program program = train(ranks, "--val-data " + kText + " --out " + out + " --ddp " + ddp);
    ASSERT_EQ(program.code, 0) << program.errors;
    EXPECT_EQ(program.output.find("[1]"), std::string::npos) << "rank 0 alone prints: " << program.output;
    EXPECT_NE(program.output.find(fmt::format("[0] ranks          {}, ", ranks)), std::string::npos) << program.output;
    EXPECT_NE(program.output.find("step 4: validation loss "), std::string::npos) << program.output;
    expect_close(out, "one", 1e-5);
  };
  expect_equal(2, "naive");
  expect_equal(2, "bucketed --bucket-mb 0.02");
  expect_equal(4, "overlap");
  expect_equal(4, "sharded-rs --bucket-mb 0.02");
}

TEST_F(LmDdp, GoesOnBitForBitOnTheSameRanksAndCloselyOnOthers) {
  ASSERT_EQ(train(2, "--ddp sharded-overlap --bucket-mb 0.02 --out whole").code, 0);
  const auto goes_on = [&](int ranks, const std::string& ddp, const std::string& out) {
    copy_half("whole", out);
    const Program program = train(ranks, "--resume --out " + out + ddp);
    EXPECT_EQ(program.code, 0) << program.errors;
    EXPECT_NE(program.output.find("[0] note: goes on after step 4\n"), std::string::npos) << program.output;
  };
  goes_on(2, " --ddp sharded-overlap --bucket-mb 0.02", "same");
  EXPECT_TRUE(bytes("same", 8) == bytes("whole", 8));
  EXPECT_EQ(losses_in(scratch_, "same"), losses_in(scratch_, "whole"));
  goes_on(2, " --ddp bucketed --bucket-mb 0.02", "unsharded");
  EXPECT_TRUE(bytes("unsharded", 8) == bytes("whole", 8)) << "the same sums, so the same bits";
  goes_on(4, " --ddp sharded-rs", "four");
  expect_close("four", "whole", 1e-5);
  goes_on(1, "", "one");
  expect_close("one", "whole", 1e-5);

  // What one process has left, ranks go on with.
  copy_half("one", "again");
  const Program program = train(2, "--resume --out again --ddp sharded");
  EXPECT_EQ(program.code, 0) << program.errors;
  expect_close("again", "whole", 1e-5);
}

TEST_F(LmDdp, RanksThatDifferAreToldBothValues) {
  const auto refused = [&](const std::string& flags, const std::string& says, const std::string& before = "") {
    const std::string command = script(before, kSteps8 + "--ddp flat --out run " + flags);
    const Program program = launch(2, command, "--max-restarts 2");
    EXPECT_EQ(program.code, 2) << program.errors;
    for (const char* rank : {"[0] ", "[1] "}) {
      EXPECT_NE(program.errors.find(rank + std::string("strobe: the ranks differ: ") + says), std::string::npos)
          << program.errors;
    }
    EXPECT_EQ(program.errors.find("restart"), std::string::npos) << "bad input is not tried again";
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "run"));
  };
  refused("--vocabulary $((300 + rank))", "vocabulary is 301 on rank 1 (");
  refused("--seed $((7 - rank))", "seed is 6 on rank 1 (");
  // As on two hosts.
  refused("--val-data own.txt", "tokens of --val-data is ",
          "mkdir host$rank && cd host$rank && head -c $((900 + rank)) " + kText + " > own.txt");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "host0" / "run"));
}

TEST_F(LmDdp, RefusesWhatRanksDoNotDo) {
  const std::string flags = kSmall + kSteps8 + "--out run ";
  const auto refused = [&](const std::string& more, const std::string& says, const std::string& before = "") {
    expect_refusal(run_program(flags + more, scratch_, before), 2, "strobe: " + says);
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "run"));
  };
  refused("", "lm train: this process is rank 1 of 2; valid: with --ddp naive|",
          "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
  refused("--ddp flat --bucket-mb 3", "--bucket-mb: --ddp flat has no buckets; valid with bucketed, ");
  refused("--ddp bucketed --bucket-mb 0", "--bucket-mb 0: valid: ");
  refused("--ddp flat --precision fp16", "--precision fp16: not with --ddp");
  refused("--ddp flat --device cuda", "--device cuda: ");  // there is none to be seen
  refused("--ddp flat --engine nccl --device cpu", "--engine nccl: ");
  refused("--ddp flat --engine ring", "--engine ring: valid: auto, mpi, nccl");
  refused("--engine mpi", "--engine: without --ddp");
  refused("--ddp none", "--ddp none: valid: naive, flat, overlap");
  refused("--bucket-mb 3", "--bucket-mb: without --ddp");
  refused("--verify", "--verify: of ranks; valid with --ddp");
  refused("--verify --ddp flat", "--out: with --verify nothing");
  const Program odd = launch(3, flags + "--ddp flat");
  EXPECT_EQ(odd.code, 2) << odd.errors;
  EXPECT_NE(odd.errors.find("a batch of 4 sequences on 3 ranks"), std::string::npos) << odd.errors;
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "run"));
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
  EXPECT_NE(sharded.find("; largest difference from flat 0.0e+00, at most 0; all ranks"), std::string::npos) << sharded;
  EXPECT_NE(verified(2, "sharded-rs --bucket-mb 0.02 --steps 3").find("from bucketed "), std::string::npos);
  const std::string gpt2 = verified(2, "bucketed --bucket-mb 0.02 --arch gpt2");
  EXPECT_NE(gpt2.find("[0] layers.1.attention.k.bias "), std::string::npos) << gpt2;
  EXPECT_EQ(scratch_.entries(), 0u) << "nothing is written";
}

// The rate does not depend on the number of steps, so that a run may be cut off anywhere and go on to a nearer end.
const std::string kConstantRate = "--lr-min 0.003 --lr-warmup 0 --sample-tokens 0 --ddp sharded ";
// More than are taken before somebody looks, and not so many that ranks left behind would train for hours.
const std::string kManySteps = "--steps 20000 ";

class LmDdpDisturbed : public LmDdp {
 protected:
  // Ranks that would train for minutes, each with its process in rankN.pid; once some steps were taken, the shell does
  // what it is told and waits for their end. It lets nobody train on where the test itself is gone.
  Program disturbed(const std::string& disturbance, const std::string& flags = "") const {
    const std::string command =
        script("echo $$ > rank$rank.pid", kConstantRate + kManySteps + "--checkpoint-every 2 --keep 2 --out run");
    return run_command("{ CUDA_VISIBLE_DEVICES= '" STROBE_PROGRAM "' launch -n 2 --grace 60 " + flags + " -- " +
                           command +
                           " & trap 'kill -KILL $!' EXIT HUP INT TERM; looks=0; "
                           "until [ $(cat run/steps.jsonl 2>/dev/null | wc -l) -gt 4 ]; do "
                           "kill -0 $! && kill -0 $PPID && [ $looks -lt 30000 ] || exit; "
                           "looks=$((looks + 1)); sleep 0.01; done; " +
                           disturbance + "; wait $!; code=$?; trap - EXIT; exit $code; }",
                       scratch_);
  }

  // Two more steps than the newest checkpoint has, beside a run that nobody disturbed.
  void expect_goes_on() const {
    const std::int64_t last = lm::checkpoint_steps((scratch_.path() / "run").string()).back() + 2;
    const std::string steps = "--steps " + std::to_string(last);
    const Program resumed = launch(2, kSmall + kConstantRate + "--resume --out run " + steps);
    ASSERT_EQ(resumed.code, 0) << resumed.errors;
    expect_as_undisturbed(last);
  }

  void expect_as_undisturbed(std::int64_t last) const {
    const std::string steps = "--steps " + std::to_string(last);
    const Program whole = launch(2, kSmall + kConstantRate + "--checkpoint-every 0 --out whole " + steps);
    ASSERT_EQ(whole.code, 0) << whole.errors;
    EXPECT_TRUE(bytes("run", last) == bytes("whole", last));
    EXPECT_EQ(losses_in(scratch_, "run"), losses_in(scratch_, "whole"));
  }
};

TEST_F(LmDdpDisturbed, ASignalSavesAfterTheSameStepOnAllRanks) {
  const Program program = disturbed("kill -TERM $!");
  EXPECT_EQ(program.code, 128 + 15) << program.errors;
  EXPECT_NE(program.output.find("[0] stopped by a signal after step "), std::string::npos) << program.output;
  EXPECT_EQ(program.errors, "");
  expect_goes_on();
}

// One of the ranks alone is told, not the launcher.
TEST_F(LmDdpDisturbed, ASignalToOneRankStopsAll) {
  const Program program = disturbed("kill -TERM $(cat rank1.pid)", "--max-restarts 2");
  EXPECT_EQ(program.code, 128 + 15) << program.errors;
  EXPECT_EQ(program.errors.find("restart"), std::string::npos) << program.errors;
  EXPECT_NE(program.output.find("[0] stopped by a signal after step "), std::string::npos) << program.output;
}

TEST_F(LmDdpDisturbed, AKilledRankIsNamedAndTheLastCheckpointGoesOn) {
  const Program program = disturbed("kill -KILL $(cat rank1.pid)");
  EXPECT_EQ(program.code, 128 + 9) << program.errors;
  EXPECT_NE(program.errors.find("[0] strobe: rank 0 of 2 on "), std::string::npos) << program.errors;
  EXPECT_NE(program.errors.find(": rank 1 on "), std::string::npos) << program.errors;
  EXPECT_NE(program.errors.find(" (call "), std::string::npos) << "the operation: " << program.errors;
  EXPECT_NE(program.errors.find(" ended without a word\n"), std::string::npos) << program.errors;
  expect_goes_on();
}

// Rank 1 is killed in each but the last start, once a checkpoint more than before is there; the last one has only to go
// on for some steps.
TEST_F(LmDdpDisturbed, StartsAgainFromTheLastCheckpoint) {
  const std::string flags = kConstantRate + "--checkpoint-every 20 --keep 0 --out run ";
  const std::string killed =
      "checkpoints() { ls run 2>/dev/null | grep -c 'step-[0-9]*.safetensors$'; }\n"
      "before=$(checkpoints)\n"
      "last=$((20 * (before + 1)))\n"
      "if [ $STROBE_RESTARTS -lt 2 ]; then last=20000; fi\n"
      "if [ $rank = 1 ] && [ $STROBE_RESTARTS -lt 2 ]; then\n"
      "  '" STROBE_PROGRAM "' " +
      kSmall + flags +
      "--steps $last &\n"
      "  while [ $(checkpoints) -le $before ] && kill -0 $!; do sleep 0.01; done\n"
      "  kill -9 $!; exit 9\n"
      "fi";
  const Program program = launch(2, script(killed, flags + "--steps $last"), "--max-restarts 2");
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.errors.find("restart 2 of 2\n"), std::string::npos) << program.errors;
  const std::string goes_on = "[0] note: goes on after step ";
  const std::size_t first = program.output.find(goes_on);
  ASSERT_NE(first, std::string::npos) << program.output;
  EXPECT_NE(program.output.find(goes_on, first + 1), std::string::npos) << "each start: " << program.output;
  EXPECT_EQ(program.output.find(" yet: begins at step 0"), std::string::npos) << program.output;
  expect_as_undisturbed(lm::checkpoint_steps((scratch_.path() / "run").string()).back());
}

TEST_F(LmDdp, ATornCheckpointIsNamedAndARestartPassesItOver) {
  const std::string flags = kSteps8 + "--ddp bucketed --out run";
  ASSERT_EQ(launch(2, script("export STROBE_JOB=one", flags)).code, 0);
  const std::string whole = bytes("run", 8);
  std::filesystem::resize_file(scratch_.path() / "run" / checkpoint(8), whole.size() / 2);
  const Program refused = train(2, "--ddp bucketed --resume --out run");
  EXPECT_EQ(refused.code, 2) << refused.errors;
  EXPECT_NE(refused.errors.find("that of step 4: --resume=4 goes on from there\n"), std::string::npos)
      << refused.errors;
  EXPECT_NE(refused.errors.find("[1] strobe: rank 1 of 2 on "), std::string::npos) << refused.errors;
  // As the launcher does it for a rank that it starts again.
  const Program again = launch(2, script("export STROBE_JOB=one STROBE_RESTARTS=1", flags));
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.output.find("[0] note: passed over: checkpoint run/" + checkpoint(8)), std::string::npos)
      << again.output;
  EXPECT_TRUE(bytes("run", 8) == whole);
}

// Larger than what MPI itself makes, and than the file that rank 0 may write: 20 or 10 MB.
TEST_F(LmDdp, FullDiskOfRank0EndsAllAndLosesNothing) {
  const std::string flags = "--vocabulary 60000 --steps 2 --checkpoint-every 1 --sample-tokens 0 --ddp sharded --out ";
  const Program full = launch(2, script("[ $rank = 0 ] && ulimit -f 20000", flags + "run"));
  EXPECT_EQ(full.code, 3) << full.errors;
  EXPECT_NE(full.errors.find("[0] strobe: "), std::string::npos) << full.errors;
  EXPECT_NE(full.errors.find(checkpoint(1) + ": writing failed: File too large\n"), std::string::npos) << full.errors;
  EXPECT_NE(full.errors.find("[1] strobe: rank 1 of 2 on "), std::string::npos) << "rank 0's end: " << full.errors;
  EXPECT_TRUE(lm::checkpoint_steps((scratch_.path() / "run").string()).empty());
  const Program resumed = launch(2, kSmall + flags + "run --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  ASSERT_EQ(launch(2, kSmall + flags + "whole").code, 0);
  EXPECT_TRUE(bytes("run", 2) == bytes("whole", 2));
  EXPECT_EQ(losses_in(scratch_, "run"), losses_in(scratch_, "whole"));
}

}  // namespace
}  // namespace strobe::test
