// Tests `strobe lm train --ddp` with ranks that have different options, that are killed, stopped or signalled, and with
// damaged or partly written files.
#include <unistd.h>

#include <regex>
#include <sstream>

#include "cli/background.h"
#include "cli/lm/ddp_run.h"
#include "lm/train/checkpoint_folder.h"

namespace strobe::test {
namespace {

class LmDdpDiffering : public LmDdp {
 protected:
  static std::string named(int rank) {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    return fmt::format("rank {} ({})", rank, host);
  }
  // Returns a text such as "layers is 4 on rank 1 (vm) and 3 on rank 0 (vm)".
  static std::string differs(const std::string& key, int on_rank_1, int on_rank_0) {
    return fmt::format("{} is {} on {} and {} on {}", key, on_rank_1, named(1), on_rank_0, named(0));
  }

  // Expects `lines` error lines with the reason: one for the job, or one per rank if the ranks have not connected. The
  // job must end with exit code 2, without a restart and without making its folder.
  void expect_refused(const std::string& flags, const std::string& says, std::size_t lines = 1,
                      const std::string& before = "", const std::string& train = kSmall) const {
    const std::string command = script(before, kSteps8 + "--ddp flat --out run " + flags, train);
    const Program program = launch(2, command, "--max-restarts 2 --restart-delay 0");
    EXPECT_EQ(program.code, 2) << program.errors;
    std::vector<std::string> found;
    std::istringstream text(program.errors);
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("[")) found.push_back(line);
    }
    EXPECT_EQ(found.size(), lines) << program.errors;
    for (const std::string& line : found)
      EXPECT_NE(line.find(": the ranks differ: " + says), std::string::npos) << line;
    EXPECT_EQ(program.errors.find("restart"), std::string::npos) << "bad input is not tried again";
    EXPECT_EQ(program.output, "");
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "run"));
  }
};

TEST_F(LmDdpDiffering, DifferentModelSizesAreRejectedInOneLine) {
  const std::string train = "lm train --context 32 --batch 4 --data " + kText + " ";
  expect_refused("--layers $((3 + rank))", differs("layers", 4, 3), 1, "", train);
  expect_refused("--size $size", differs("d_model", 768, 1024), 1, "[ $rank = 0 ] && size=medium || size=small", train);
  expect_refused("--vocabulary $((300 + rank))", differs("vocabulary", 301, 300));
}

TEST_F(LmDdpDiffering, DifferentSeedsAndDataAreRejectedInOneLine) {
  expect_refused("--seed $((7 - rank))", differs("seed", 6, 7));
  // The ranks read different files, as on two hosts.
  expect_refused("--val-data own.txt", differs("tokens of --val-data", 901, 900), 1,
                 "mkdir host$rank && cd host$rank && head -c $((900 + rank)) " + kText + " > own.txt");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "host0" / "run"));
}

// The ranks get different values of mpirun's variables. Without the check, a rank 0 that finds a size of 1 would train
// the whole model by itself.
TEST_F(LmDdpDiffering, DifferentWorldSizesAreRejectedByEveryRank) {
  const auto with_size = [](int rank, int size) {
    return fmt::format("[ $rank = {} ] && export OMPI_COMM_WORLD_SIZE={}", rank, size);
  };
  expect_refused("", named(1) + " was started with 3 ranks and MPI has 2; ", 2, with_size(1, 3));
  expect_refused("", named(0) + " was started with 3 ranks and MPI has 2; ", 2, with_size(0, 3));
  for (const int rank : {0, 1}) {
    expect_refused("", named(rank) + " was started with 1 ranks and MPI has 2; ", 2, with_size(rank, 1));
  }
}

// With these flags the learning rate is constant, so it does not depend on --steps. A run can then be interrupted at
// any step and resumed with another --steps.
const std::string kConstantRate = "--lr-min 0.003 --lr-warmup 0 --sample-tokens 0 --ddp sharded ";
// More steps than the ranks reach before the signal. If a failing test leaves ranks behind, they end within hours.
const std::string kManySteps = "--steps 20000 ";

struct Disturbance {
  std::string act;                   // shell commands that disturb the job
  std::string flags = "--grace 60";  // flags of `strobe launch`
  std::string before{};              // shell commands that each rank runs first
};

class LmDdpDisturbed : public LmDdp {
 protected:
  // Starts ranks that would train for minutes; each writes its pid to rankN.pid. After a few steps the shell runs `act`
  // and waits for the ranks. It ends them if the test itself ends. Every command line contains the scratch folder, by
  // which processes_with() finds the job's processes.
  Program disturbed(const Disturbance& disturbance) const {
    const std::string folder = scratch_.path().string();
    script("echo $$ > rank$rank.pid\n" + disturbance.before,
           kConstantRate + kManySteps + "--checkpoint-every 2 --keep 2 --out " + folder + "/run");
    return run_command("{ CUDA_VISIBLE_DEVICES= '" STROBE_PROGRAM "' launch -n 2 " + disturbance.flags + " -- " +
                           folder +
                           "/rank.sh & trap 'kill -KILL $!' EXIT HUP INT TERM; looks=0; "
                           "until [ $(cat run/steps.jsonl 2>/dev/null | wc -l) -gt 4 ]; do "
                           "kill -0 $! && kill -0 $PPID && [ $looks -lt 30000 ] || exit; "
                           "looks=$((looks + 1)); sleep 0.01; done; " +
                           disturbance.act + "; wait $!; code=$?; trap - EXIT; exit $code; }",
                       scratch_);
  }

  // Stops rank `stopped` permanently. Only the other rank has a short limit for silence, so it reports the stopped rank
  // as lost, and never the reverse. If a busy machine delays a heartbeat before the stop, retries with a longer limit.
  void expect_lost(int stopped) const {
    const int left = 1 - stopped;
    const std::string act = fmt::format(
        "pid=$(cat rank{}.pid); kill -STOP $pid; until grep -q State:.T /proc/$pid/status && echo > stopped; do "
        "[ -e /proc/$pid ] || break; sleep 0.01; done",
        stopped);
    Program program;
    int limit = 2;  // seconds
    for (;; limit *= 2) {
      ASSERT_LE(limit, 64) << program.errors;
      program = disturbed(
          {.act = act,
           .flags = "--grace 0.1",
           .before = fmt::format("export STROBE_COMM_TIMEOUT=60\n[ $rank = {} ] && export STROBE_COMM_SILENCE={}", left,
                                 limit)});
      if (std::filesystem::exists(scratch_.path() / "stopped")) break;
      std::filesystem::remove_all(scratch_.path() / "run");
    }
    EXPECT_EQ(program.code, 3) << program.errors;
    const std::string host = R"(on [^ ]+)", operation = R"([a-z-]+( of [0-9]+ [a-z0-9]+)? \(call [0-9]+\))";
    const std::regex lines(
        fmt::format("\\[{0}\\] strobe: rank {0} of 2 {1}: {2}: rank {3} {1} sent nothing for {4} s\n"
                    "strobe: launch: rank {0} ended with exit code 3\n",
                    left, host, operation, stopped, limit));
    EXPECT_TRUE(std::regex_match(program.errors, lines)) << program.errors;
    EXPECT_EQ(processes_with(scratch_.path().string()), 0) << "the stopped rank must end too";
    expect_resumes();
  }

  // Trains two steps beyond the newest checkpoint and compares the result with an undisturbed run.
  void expect_resumes() const {
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
  const Program program = disturbed({.act = "kill -TERM $!"});
  EXPECT_EQ(program.code, 128 + 15) << program.errors;
  EXPECT_NE(program.output.find("[0] stopped by a signal after step "), std::string::npos) << program.output;
  EXPECT_EQ(program.errors, "strobe: launch: ended by signal 15 (Terminated), forwarded to the ranks\n");
  expect_resumes();
}

// Only one rank gets the signal, not the launcher.
TEST_F(LmDdpDisturbed, ASignalToOneRankStopsAll) {
  const Program program =
      disturbed({.act = "kill -TERM $(cat rank1.pid)", .flags = "--grace 60 --max-restarts 2 --restart-delay 0"});
  EXPECT_EQ(program.code, 128 + 15) << program.errors;
  EXPECT_EQ(program.errors.find("restart"), std::string::npos) << program.errors;
  EXPECT_NE(program.output.find("[0] stopped by a signal after step "), std::string::npos) << program.output;
}

TEST_F(LmDdpDisturbed, AKilledRankIsNamedAndTrainingCanResume) {
  const Program program = disturbed({.act = "kill -KILL $(cat rank1.pid)"});
  EXPECT_EQ(program.code, 128 + 9) << program.errors;
  EXPECT_NE(program.errors.find("[0] strobe: rank 0 of 2 on "), std::string::npos) << program.errors;
  EXPECT_NE(program.errors.find(": rank 1 on "), std::string::npos) << program.errors;
  EXPECT_NE(program.errors.find(" (call "), std::string::npos) << "the operation: " << program.errors;
  EXPECT_NE(program.errors.find(" ended without a message\n"), std::string::npos) << program.errors;
  expect_resumes();
}

TEST_F(LmDdpDisturbed, AStoppedRank1IsNamedAndEndedAndTrainingCanResume) { expect_lost(1); }

TEST_F(LmDdpDisturbed, AStoppedRank0IsNamedAndEndedAndTrainingCanResume) { expect_lost(0); }

// In each of the first two starts of the job, rank 1 is killed after one more checkpoint. The third trains to the end.
TEST_F(LmDdpDisturbed, RestartsFromTheLastCheckpoint) {
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
  const Program program = launch(2, script(killed, flags + "--steps $last"), "--max-restarts 2 --restart-delay 0");
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.errors.find("restart 2 of 2\n"), std::string::npos) << program.errors;
  const std::string resume_note = "[0] note: resumes after step ";
  const std::size_t first = program.output.find(resume_note);
  ASSERT_NE(first, std::string::npos) << program.output;
  EXPECT_NE(program.output.find(resume_note, first + 1), std::string::npos) << "each start: " << program.output;
  EXPECT_EQ(program.output.find(" yet: starts at step 0"), std::string::npos) << program.output;
  expect_as_undisturbed(lm::checkpoint_steps((scratch_.path() / "run").string()).back());
}

TEST_F(LmDdp, ATornCheckpointIsNamedAndSkippedByARestart) {
  const std::string flags = kSteps8 + "--ddp bucketed --out run";
  ASSERT_EQ(launch(2, script("export STROBE_JOB=one", flags)).code, 0);
  const std::string whole = bytes("run", 8);
  std::filesystem::resize_file(scratch_.path() / "run" / checkpoint(8), whole.size() / 2);
  const Program refused = train(2, "--ddp bucketed --resume --out run");
  EXPECT_EQ(refused.code, 2) << refused.errors;
  EXPECT_NE(refused.errors.find("that of step 4: --resume=4 continues from there\n"), std::string::npos)
      << refused.errors;
  EXPECT_TRUE(refused.errors.starts_with("strobe: launch: all 2 ranks: checkpoint run/")) << refused.errors;
  // The environment that the launcher gives to a restarted rank.
  const Program again = launch(2, script("export STROBE_JOB=one STROBE_RESTARTS=1", flags));
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.output.find("[0] note: skipped: checkpoint run/" + checkpoint(8)), std::string::npos) << again.output;
  EXPECT_TRUE(bytes("run", 8) == whole);
}

// ulimit -f counts blocks of 512 or 1024 bytes, so rank 0 may write files of at most 10 or 20 MB: enough for MPI's
// files, too little for the checkpoint.
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
