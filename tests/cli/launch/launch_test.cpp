// Tests `strobe launch` with shell scripts as ranks: output, exit codes, signals, restarts, and that no process
// remains.
#include <gtest/gtest.h>

#include "cli/background.h"
#include "cli/run_program.h"

namespace strobe::test {
namespace {

class Launch : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }
  // Writes a script for all ranks and returns its command.
  std::string script(const std::string& text) {
    std::ofstream(scratch_.path() / "ranks.sh") << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(scratch_.path() / "ranks.sh", std::filesystem::perms::owner_all);
    return "./ranks.sh";
  }
  bool appears(const std::string& file) const {
    return becomes([&] { return std::filesystem::exists(scratch_.path() / file); });
  }

  Scratch scratch_;
};

TEST_F(Launch, PutsTheRankBeforeEachLine) {
  const std::string command = script("echo one $1; echo two >&2; printf three");
  const Program program = run_program("launch -n 2 -- " + command + " word", scratch_);
  EXPECT_EQ(program.code, 0);
  for (const char* rank : {"[0] ", "[1] "}) {
    EXPECT_NE(program.output.find(rank + std::string("one word\n")), std::string::npos) << program.output;
    EXPECT_NE(program.output.find(rank + std::string("three\n")), std::string::npos) << program.output;
    EXPECT_NE(program.errors.find(rank + std::string("two\n")), std::string::npos) << program.errors;
  }
  const Program plain = run_program("launch -n 1 --prefix=off -- " + command, scratch_);
  EXPECT_EQ(plain.output, "one\nthree");
}

TEST_F(Launch, LongOutputKeepsItsLines) {
  const Program program =
      run_program("launch -n 3 -- " +
                      script("i=0; while [ $i -lt 3000 ]; do echo \"$OMPI_COMM_WORLD_RANK a line of some length $i\"; "
                             "i=$((i+1)); done"),
                  scratch_);
  EXPECT_EQ(program.code, 0);
  std::istringstream lines(program.output);
  int next[3] = {0, 0, 0};
  for (std::string line; std::getline(lines, line);) {
    const int rank = line.at(1) - '0';
    ASSERT_TRUE(rank >= 0 && rank < 3) << line;
    ASSERT_EQ(line, "[" + std::to_string(rank) + "] " + std::to_string(rank) + " a line of some length " +
                        std::to_string(next[rank]++));
  }
  for (const int count : next) EXPECT_EQ(count, 3000);
}

TEST_F(Launch, EndsAllRanksAfterTheFirstFailure) {
  const std::string mark = "strobe-launch-test-" + std::to_string(getpid());
  const std::string command =
      script("[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 5; exec sh -c 'sleep 100; echo " + mark + "'");
  const Program program = run_program("launch -n 3 --grace 0.1 -- " + command, scratch_);
  EXPECT_EQ(program.code, 5);
  EXPECT_EQ(program.errors, "strobe: launch: rank 1 ended with exit code 5\n");
  EXPECT_EQ(processes_with(mark), 0);
}

TEST_F(Launch, EndsStoppedRanksToo) {
  const Program program = run_program(
      "launch -n 2 --grace 0.1 -- " + script("[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 4; kill -STOP $$"), scratch_);
  EXPECT_EQ(program.code, 4);
}

// Each rank stops its supervisor, which is its parent process and forwards its output.
TEST_F(Launch, ResumesAStoppedSupervisor) {
  const Program fine = run_program("launch -n 2 -- " + script("kill -STOP $PPID; echo a line"), scratch_, "timeout 60");
  EXPECT_EQ(fine.code, 0) << fine.errors;
  for (const char* line : {"[0] a line\n", "[1] a line\n"}) {
    EXPECT_NE(fine.output.find(line), std::string::npos) << fine.output;
  }
  const std::string failing = script("kill -STOP $PPID; [ $OMPI_COMM_WORLD_RANK = 1 ] && exit 4; sleep 100");
  EXPECT_EQ(run_program("launch -n 2 --grace 0.1 -- " + failing, scratch_, "timeout 60").code, 4);
}

// No process reads the output of the ranks, so the supervisor of rank 0 blocks in a write.
TEST_F(Launch, EndsAlthoughNoProcessReadsItsOutput) {
  const std::string command =
      script("[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 4; head -c 1000000 /dev/zero | tr '\\0' '\\n'; sleep 100");
  const Program program = run_command(
      "mkfifo full && (exec 3<>full; timeout 60 '" STROBE_PROGRAM "' launch -n 2 --grace 0.1 -- " + command + " >&3)",
      scratch_);
  EXPECT_EQ(program.code, 4) << program.errors;
}

TEST_F(Launch, ForwardsSignals) {
  const std::string command = script(
      "trap 'echo > ended$OMPI_COMM_WORLD_RANK; exit 0' TERM; echo > ready$OMPI_COMM_WORLD_RANK; "
      "while true; do sleep 0.05; done");
  Background program("launch -n 2 -- " + command, scratch_, "errors");
  ASSERT_TRUE(appears("ready0") && appears("ready1"));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
  EXPECT_TRUE(appears("ended0") && appears("ended1"));
  const std::string errors = scratch_.read("errors");  // the ranks' shells may have printed lines too
  EXPECT_TRUE(errors.ends_with("strobe: launch: ended by signal 15 (Terminated), forwarded to the ranks\n")) << errors;
}

// Batch systems send SIGUSR1, SIGUSR2, SIGXCPU or SIGALRM before they end a job. The launcher forwards the signal. If
// the ranks then exit, the job ends without a restart.
TEST_F(Launch, EndsOnTheSignalsOfBatchSystems) {
  std::string traps;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM})
    traps += "trap 'exit " + std::to_string(128 + signal) + "' " + std::to_string(signal) + "\n";
  const std::string command = script(traps + "echo > ready$OMPI_COMM_WORLD_RANK; while true; do sleep 0.05; done");
  for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM}) {
    for (const char* file : {"ready0", "ready1", "errors"}) std::filesystem::remove(scratch_.path() / file);
    Background program("launch -n 2 --max-restarts 2 -- " + command, scratch_, "errors");
    ASSERT_TRUE(appears("ready0") && appears("ready1"));
    program.send(signal);
    EXPECT_EQ(program.wait(), 128 + signal);
    EXPECT_TRUE(scratch_.read("errors").ends_with(", forwarded to the ranks\n")) << scratch_.read("errors");
  }
}

// Programs may use SIGUSR1 for another purpose, so it starts no grace period.
TEST_F(Launch, LetsRanksContinueAfterUsr1) {
  const std::string command = script(
      "trap 'echo > seen$OMPI_COMM_WORLD_RANK' USR1; trap 'echo > asked; exit 1' TERM\n"
      "echo > ready$OMPI_COMM_WORLD_RANK; until [ -e seen0 ] && [ -e seen1 ]; do sleep 0.05; done; sleep 1");
  Background program("launch -n 2 --grace 0.1 -- " + command, scratch_);
  ASSERT_TRUE(appears("ready0") && appears("ready1"));
  program.send(SIGUSR1);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "asked"));
}

// The children of a rank end with it, even if its supervisor is killed.
TEST_F(Launch, EndsTheChildrenOfARankWhoseSupervisorIsKilled) {
  const std::string mark = "strobe-launch-orphan-" + std::to_string(getpid());
  const std::string command = script("[ $OMPI_COMM_WORLD_RANK = 1 ] && { sh -c 'sleep 100; echo " + mark +
                                     "' & echo $PPID > supervisor; }; sleep 100");
  Background program("launch -n 2 --grace 0.1 -- " + command, scratch_, "errors");
  ASSERT_TRUE(becomes([&] { return !words_in(scratch_.read("supervisor")).empty(); }));
  ASSERT_TRUE(becomes([&] { return processes_with(mark) > 0; }));
  kill(std::stoi(scratch_.read("supervisor")), SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_EQ(scratch_.read("errors"), "strobe: launch: rank 1 died of signal 9 (Killed)\n");
  EXPECT_EQ(processes_with(mark), 0);
}

// A shell may become the launcher by exec. Processes that the shell had started are not ranks.
TEST_F(Launch, SparesChildrenStartedBeforeItsExec) {
  const std::string command = script(
      "[ $OMPI_COMM_WORLD_RANK = 1 ] && echo $PPID > supervisor; until [ -s supervisor ]; do sleep 0.02; done\n"
      "[ $OMPI_COMM_WORLD_RANK = 1 ] || kill -9 $(cat supervisor); sleep 100");
  const Program program = run_command(
      "(setsid sleep 100 & echo $! > server; exec '" STROBE_PROGRAM "' launch -n 2 --grace 0.1 -- " + command + ")",
      scratch_);
  EXPECT_EQ(program.code, 128 + SIGKILL) << program.errors;
  EXPECT_EQ(kill(std::stoi(scratch_.read("server")), SIGKILL), 0);
}

// As with nohup: a signal that the parent process ignores ends neither the launcher nor the ranks.
TEST_F(Launch, IgnoresSignalsThatItsParentIgnores) {
  const std::string command = script("echo > ready; until [ -e done ]; do sleep 0.05; done; echo > whole");
  const Program program =
      run_command("(trap '' HUP USR1; '" STROBE_PROGRAM "' launch -n 1 -- " + command +
                      " & until [ -e ready ]; do sleep 0.05; done; kill -HUP $!; kill -USR1 $!; sleep 0.3; echo > done;"
                      " wait $!)",
                  scratch_);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "whole"));
}

TEST_F(Launch, DoublesThePauseBeforeEachRestart) {
  const std::string command = script("date +%s%N >> starts; exit 9");
  const Program program = run_program("launch -n 1 --max-restarts 3 --restart-delay 0.1 -- " + command, scratch_);
  EXPECT_EQ(program.code, 9);
  EXPECT_EQ(program.errors,
            "strobe: launch: rank 0 ended with exit code 9; restart 1 of 3 in 0.1 s\n"
            "strobe: launch: rank 0 ended with exit code 9; restart 2 of 3 in 0.2 s\n"
            "strobe: launch: rank 0 ended with exit code 9; restart 3 of 3 in 0.4 s\n"
            "strobe: launch: rank 0 ended with exit code 9\n");
  const std::vector<std::string> starts = words_in(scratch_.read("starts"));
  ASSERT_EQ(starts.size(), 4u);
  for (const std::size_t i : {1u, 2u, 3u})
    EXPECT_GE(std::stoll(starts[i]) - std::stoll(starts[i - 1]), 50'000'000LL << i) << i;
}

TEST_F(Launch, EndsAtOnceOnASignalBeforeARestart) {
  Background program("launch -n 1 --max-restarts 1 --restart-delay 1000 -- " + script("exit 9"), scratch_, "errors");
  ASSERT_TRUE(becomes([&] { return scratch_.read("errors").ends_with("restart 1 of 1 in 1000 s\n"); }));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
  EXPECT_TRUE(scratch_.read("errors").ends_with("launch: ended by signal 15 (Terminated) before a restart\n"));
}

TEST_F(Launch, ReportsTooFewDescriptors) {
  const std::string command = "'" STROBE_PROGRAM "' launch -n 2 -- " + script("exit 0") + ")";
  EXPECT_EQ(run_command("(ulimit -n 42; " + command, scratch_).code, 0);
  const Program program = run_command("(ulimit -n 41; " + command, scratch_);
  EXPECT_EQ(program.code, 3);
  EXPECT_EQ(program.errors,
            "strobe: launch: 2 ranks need 42 file descriptors, but the limit is 41; raise it with ulimit -n\n");
}

// This mpirun sends the launcher a signal before it starts the ranks.
TEST_F(Launch, ForwardsASignalThatCameBeforeTheRanks) {
  const std::string command = script("sleep 15; echo > whole$OMPI_COMM_WORLD_RANK");
  const Program program = run_command(
      "mkdir early && printf '#!/bin/sh\\nkill -TERM $PPID\\nexec '$(command -v mpirun)' \"$@\"\\n' > early/mpirun && "
      "chmod +x early/mpirun && PATH=$PWD/early:$PATH '" STROBE_PROGRAM "' launch -n 2 -- " +
          command,
      scratch_);
  EXPECT_EQ(program.code, 128 + SIGTERM) << program.errors;
  for (const char* file : {"whole0", "whole1"}) EXPECT_FALSE(std::filesystem::exists(scratch_.path() / file)) << file;
}

// Without --grace, ranks have more time to end after a signal than after a failure, because they may save a checkpoint.
// Here rank 0 takes 6 s, longer than the time after a failure, and must get no second signal although rank 1 ended at
// once.
TEST_F(Launch, LeavesTimeToSaveAfterASignal) {
  const std::string command = script(
      "save() { trap 'echo > asked-again' TERM; sleep 6; echo > saved; exit 143; }\n"
      "trap '[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 143; save' TERM\n"
      "echo > ready$OMPI_COMM_WORLD_RANK; while true; do sleep 0.05; done");
  Background program("launch -n 2 -- " + command, scratch_);
  ASSERT_TRUE(appears("ready0") && appears("ready1"));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "saved"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "asked-again"));
}

// Exit code 143 (SIGTERM) of rank 1 means that only this rank got a signal. Rank 0 needs 6 s to end, longer than the
// time after a failure.
TEST_F(Launch, LeavesTimeToSaveAfterASignalToOneRank) {
  const Program program =
      run_program("launch -n 2 --max-restarts 2 -- " +
                      script("trap 'echo > asked-again' TERM\n[ $OMPI_COMM_WORLD_RANK = 0 ] && sleep 6\nexit 143"),
                  scratch_);
  EXPECT_EQ(program.code, 143);
  EXPECT_TRUE(program.errors.ends_with(" ended with exit code 143\n")) << program.errors;
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "asked-again"));
}

TEST_F(Launch, RestartsOnlyAfterFailuresThatMayNotRecur) {
  const auto ends = [&](const std::string& text, int code, const std::string& errors) {
    const Program program = run_program("launch -n 1 --max-restarts 1 --restart-delay 0 -- " + script(text), scratch_);
    EXPECT_EQ(program.code, code) << text;
    EXPECT_EQ(program.errors, "strobe: launch: rank 0 " + errors) << text;
  };
  for (const int code : {2, 129, 130, 138, 140, 142, 143, 152}) {
    const std::string number = std::to_string(code);
    ends("exit " + number, code, "ended with exit code " + number + "\n");
  }
  ends("[ $STROBE_RESTARTS = 1 ] || exit 1", 0, "ended with exit code 1; restart 1 of 1\n");
  ends("[ $STROBE_RESTARTS = 1 ] || exit 3", 0, "ended with exit code 3; restart 1 of 1\n");
  ends("[ $STROBE_RESTARTS = 1 ] || kill -TERM $$", 0, "died of signal 15 (Terminated); restart 1 of 1\n");
}

TEST_F(Launch, AllStartsOfAJobShareAName) {
  const auto name = [&] {
    std::filesystem::remove(scratch_.path() / "jobs");
    const std::string command = script("echo $STROBE_JOB >> jobs; exit 9");
    EXPECT_EQ(
        run_program("launch -n 1 --max-restarts 1 --restart-delay 0 -- " + command, scratch_, "STROBE_JOB=outer").code,
        9);
    const std::vector<std::string> names = words_in(scratch_.read("jobs"));
    EXPECT_EQ(names.size(), 2u);
    EXPECT_EQ(names.front(), names.back());
    EXPECT_EQ(names.front().size(), 16u);
    return names.front();
  };
  EXPECT_NE(name(), name());
}

TEST_F(Launch, LeavesNoProcessIfItIsKilled) {
  const std::string mark = "strobe-launch-kill-" + std::to_string(getpid());
  const std::string command = script("echo > ready$OMPI_COMM_WORLD_RANK; exec sh -c 'sleep 100; echo " + mark + "'");
  Background program("launch -n 2 -- " + command, scratch_);
  ASSERT_TRUE(appears("ready0") && appears("ready1"));
  program.send(SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_TRUE(becomes([&] { return processes_with(mark) == 0; }));
}

TEST_F(Launch, RejectsBadInput) {
  const auto refused = [&](const std::string& arguments, const std::string& says, const std::string& before = "") {
    const Program program = run_program("launch " + arguments, scratch_, before);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors, "strobe: " + says + "\n");
  };
  refused("-n 2", "launch: no command given: strobe launch -n N -- COMMAND");
  refused("-n 2 lm bench", "launch: -- is missing before lm: strobe launch -n N -- COMMAND");
  refused("-- comm", "launch: -n is missing; valid: -n 1 to -n 1024");
  refused("-n 0 -- env", "-n 0: not a whole number in the valid range 1..1024");
  refused("-n", "-n: needs a value (N)");
  refused("-n 2 --ranks 3 -- env", "--ranks, the same as -n: given twice, with 2 and 3; valid: once");
  refused("--ranks two -- env", "--ranks two: not a whole number in the valid range 1..1024");
  refused("-n 2 -- env", "launch: this process is already rank 0 of a job of Open MPI",
          "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
}

// Each rank reports the same error, and the launcher prints it once. If a script runs the program, the launcher prints
// the lines of all ranks.
TEST_F(Launch, PrintsAnErrorOfAllRanksOnce) {
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const Program program = run_program("launch " + arguments, scratch_);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors, "strobe: launch: " + says);
  };
  const std::string unknown = "\"env\": version takes no arguments\n";
  refused("-n 3 -- comm --sizes 3", "all 3 ranks: --sizes 3: valid: 4 bytes (one fp32) or more\n");
  refused("-n 1 -- version env", "rank 0: " + unknown);
  for (const char* command : {"lm train --data x --out y", "lm bench"}) {  // several ranks need --ddp
    const Program program = run_program(std::string("launch -n 2 -- ") + command, scratch_);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_TRUE(program.errors.starts_with("strobe: launch: all 2 ranks: lm ")) << program.errors;
    EXPECT_NE(program.errors.find(": 2 ranks without --ddp; valid: --ddp naive|flat|"), std::string::npos);
  }
  const Program other = run_program("launch -n 2 -- " + script("exec '" STROBE_PROGRAM "' version env"), scratch_);
  for (const char* rank : {"[0]", "[1]"})
    EXPECT_NE(other.errors.find(rank + (" strobe: " + unknown)), std::string::npos) << other.errors;
}

// A script replaces strobe-lab, the child of the rank `ladder`. It stops the launcher, sends it SIGTERM and reports bad
// input. The launcher continues when the rank has ended, so it handles both events at once.
TEST_F(Launch, PrintsAnErrorAndASignalTogether) {
  script(R"(read launcher < launcher
kill -STOP $launcher
until grep -q '^State:.T' /proc/$launcher/status; do :; done
kill -TERM $launcher
setsid sh -c "while kill -0 $PPID; do sleep 0.01; done; kill -CONT $launcher" >/dev/null 2>&1 &
echo 'strobe-lab: no such case' >&2
exit 2)");
  const Program program = run_command("mv ranks.sh strobe-lab && cp '" STROBE_PROGRAM
                                      "' strobe && echo $$ > launcher && "
                                      "exec ./strobe launch -n 1 --max-restarts 1 -- ladder",
                                      scratch_);
  EXPECT_EQ(program.code, 128 + SIGTERM);
  EXPECT_EQ(program.errors,
            "strobe: launch: ended by signal 15 (Terminated), forwarded to the ranks\n"
            "strobe: launch: rank 0: ladder: no such case\n");
}

// taskset limits the job to two cores on any machine. Each rank prints the number of cores that it may use, and
// STROBE_THREADS, which the launcher sets only if ranks share cores.
TEST_F(Launch, DividesTheCoresAmongRanks) {
  const std::string two = "env -u STROBE_THREADS -u OMP_NUM_THREADS taskset -c 0,1";
  if (run_command(two + " true", scratch_).code != 0) GTEST_SKIP() << "no taskset, or no cores 0 and 1";
  const auto cores_of = [&](const std::string& ranks, const std::string& before) {
    const std::string command = script("echo $(nproc) $STROBE_THREADS");
    return run_program("launch --prefix=off -n " + ranks + " -- " + command, scratch_, before).output;
  };
  EXPECT_EQ(cores_of("1", two), "2\n");
  EXPECT_EQ(cores_of("2", two), "1\n1\n");
  EXPECT_EQ(cores_of("3", two), "2 1\n2 1\n2 1\n");
  EXPECT_EQ(cores_of("3", two + " env STROBE_THREADS=4"), "2 4\n2 4\n2 4\n");
}

TEST_F(Launch, RejectsCommandsThatCannotRunBeforeStartingRanks) {
  std::ofstream(scratch_.path() / "text") << "no program";
  std::filesystem::create_directory(scratch_.path() / "folder");
  const auto refused = [&](const std::string& command, const std::string& says) {
    const Program program = run_program("launch -n 2 --max-restarts 2 -- " + command, scratch_);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors.substr(0, 8 + says.size()), "strobe: " + says);
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
  };
  refused("./not-there", "launch: ./not-there: No such file or directory; valid: a program, or a command of strobe");
  refused("./folder", "launch: ./folder: is a folder; valid: ");
  refused("./text", "launch: ./text: cannot be run: no permission; valid: ");
  refused("env",
          "launch: env does not run on several ranks; valid on 2 ranks: comm, lm bench, lm train, or a program (with a "
          "slash)\n");
  refused("lm", "launch: lm needs a command; valid on 2 ranks: comm, lm bench, lm train, or ");
  refused("lm memory --size tiny", "launch: lm memory does not run on several ranks; ");
  refused("launch -n 1 -- comm", "launch: launch does not run on several ranks; ");
  refused("solvee --input x", "\"solvee\": unknown command; nearest: solve");
}

TEST_F(Launch, ReportsThatItsOutputIsFull) {
  const std::string command = script("echo a line; exit $1");
  const auto run = [&](const std::string& words) {
    return run_command("('" STROBE_PROGRAM "' launch -n 2 -- " + words + " >/dev/full)", scratch_);
  };
  const Program full = run(command + " 0");
  EXPECT_EQ(full.code, 3);
  EXPECT_EQ(full.errors, "strobe: standard output: cannot be written: No space left on device\n");
  EXPECT_EQ(run(command + " 5").code, 5) << "a rank's own failure comes first";
}

TEST_F(Launch, HidesInternalFlags) {
  const Program program = run_program("launch --x", scratch_);
  EXPECT_EQ(program.errors, "strobe: --x: unknown flag; all flags: strobe launch --help\n");
  EXPECT_EQ(run_program("launch --help").output.find("as-rank"), std::string::npos);
  EXPECT_EQ(run_program("launch --n 1 -- " + script("exit 0"), scratch_).code, 0);
}

TEST(KillTool, WithoutAProgramPrintsOneLine) {
  const Scratch scratch;
  for (const char* what : {"train", "ranks"}) {
    const Program program =
        run_command(std::string("python3 '" STROBE_SOURCE_DIR "/tools/kill' ") + what + " --program none", scratch);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors, "kill: --program none: no program there; ./strobe builds build/release/bin/strobe\n");
  }
}

}  // namespace
}  // namespace strobe::test
