// Runs the scenarios of tests/comm/ranks on 1 to 4 ranks that `strobe launch` starts: values, overlap, and faults.
// Every surviving rank must report a fault in one line with the faulty rank, its host and the operation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "cli/run_program.h"
#include "comm/engine.h"

namespace strobe::test {
namespace {

class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  Program launch(int ranks, const std::string& scenario, const std::string& flags = "") {
    const std::string command = "STROBE_COMM_SILENCE=" + silence_ + " STROBE_COMM_TIMEOUT=" + timeout_ + " " +
                                variables_ + " '" STROBE_PROGRAM "' launch -n " + std::to_string(ranks) + " --grace " +
                                grace_ + " " + flags + " -- '" STROBE_COMM_RANKS "' " + scenario;
    return run_command(command, scratch_);
  }

  // Expects that every rank except rank 1 prints one line that contains its rank and the reason. If rank 1 ends without
  // leaving, the other ranks may still be in the call that rank 1 completed last, because rank 1 may complete a call
  // before they do.
  void expect_lines(const Program& program, int ranks, const std::string& operation, const std::string& why) {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      const std::string start = "[" + std::to_string(rank) + "] ";
      const std::string place =
          "strobe: rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " on " + host + ": " + operation;
      int lines = 0;
      std::istringstream text(program.errors);
      for (std::string line; std::getline(text, line);) {
        if (!line.starts_with(start)) continue;
        ++lines;
        EXPECT_TRUE(line.starts_with(start + place)) << line << "\nnot: " << start + place;
        EXPECT_NE(line.find(why), std::string::npos) << line << "\nwithout: " << why;
      }
      EXPECT_EQ(lines, 1) << program.errors;
    }
  }

  Scratch scratch_;
  // In seconds; long for a busy machine, shorter only in tests that wait for these limits.
  std::string silence_ = "15", timeout_ = "30", grace_ = "60";
  std::string variables_;  // environment of the ranks: "NAME=value ..."
};

TEST_F(Ranks, CollectivesHaveKnownResults) {
  for (const int ranks : {1, 2, 4}) {
    const Program program = launch(ranks, "values");
    EXPECT_EQ(program.code, 0) << program.errors;
    EXPECT_EQ(program.errors, "");
  }
}

TEST_F(Ranks, CollectivesInChunksHaveKnownResults) {
  for (const int ranks : {1, 2, 3}) {
    const Program program = launch(ranks, "values 33334");  // 100,003 values: three chunks and one more value
    EXPECT_EQ(program.code, 0) << program.errors;
  }
}

TEST_F(Ranks, WorkContinuesWhileACallIsPending) {
  grace_ = "5";  // seconds; limits the time if one rank fails and the other waits for it
  for (const char* scenario : {"overlap", "many"}) {
    const Program program = launch(2, scenario);
    EXPECT_EQ(program.code, 0) << scenario << program.errors;
  }
}

TEST_F(Ranks, SleepWhileRankZeroWorks) {
  for (const int ranks : {1, 2, 4}) {
    const Program program = launch(ranks, "asleep");
    EXPECT_EQ(program.code, 0) << program.errors;
  }
}

TEST_F(Ranks, ReportARankThatIsKilled) {
  for (const int ranks : {2, 4}) {
    const Program program = launch(ranks, "kill");
    EXPECT_EQ(program.code, 128 + 9) << program.errors;
    expect_lines(program, ranks, "all-reduce of 1000 fp32 (call ", ": rank 1 on ");
    EXPECT_NE(program.errors.find(" ended without a message"), std::string::npos);
    EXPECT_NE(program.errors.find("strobe: launch: rank 1 died of signal 9 (Killed)\n"), std::string::npos);
  }
}

TEST_F(Ranks, ReportARankThatIsStopped) {
  silence_ = "3";
  grace_ = "5";  // the others print their lines in this time, then rank 1 is killed
  const Program program = launch(4, "stop");
  EXPECT_EQ(program.code, 3) << program.errors;
  expect_lines(program, 4, "all-reduce of 1000 fp32 (call ", " sent nothing for 3 s");
}

TEST_F(Ranks, ReportARankThatThrows) {
  const Program program = launch(4, "throw");
  EXPECT_EQ(program.code, 3) << program.errors;
  expect_lines(program, 4, "all-reduce of 1000 fp32 (call ", " gave up: see the error that it printed");
  EXPECT_NE(program.errors.find("[1] strobe: the file is torn\n"), std::string::npos) << program.errors;
}

TEST_F(Ranks, ReportARankThatAborts) {
  const Program program = launch(2, "abort");
  EXPECT_EQ(program.code, 3) << program.errors;
  expect_lines(program, 2, "all-reduce of 1000 fp32 (call ", " gave up: asked to");
}

TEST_F(Ranks, ReportARankThatLeavesEarly) {
  const Program program = launch(4, "leave");
  EXPECT_EQ(program.code, 3) << program.errors;
  expect_lines(program, 4, "all-reduce of 1000 fp32 (call ", " left after 2 calls");
}

TEST_F(Ranks, ReportARankThatHangs) {
  timeout_ = "10";  // seconds; also limits the start and the earlier calls
  grace_ = "1";     // seconds; rank 0 has printed its line, and rank 1 prints none
  const Program program = launch(2, "hang");
  EXPECT_EQ(program.code, 3) << program.errors;
  expect_lines(program, 2, "all-reduce of 1000 fp32 (call 3)", "not complete in 10 s, not reached by rank 1 on ");
}

TEST_F(Ranks, RejectDifferentModelsAndBuilds) {
  const Program program = launch(4, "differ");
  EXPECT_EQ(program.code, 2) << program.errors;
  expect_lines(program, 4,
               "start of engine mpi: the ranks differ: ", "the fingerprint is \"another model\" on rank 1 (");
  const Program build = launch(2, "other-build", "--max-restarts 3");  // bad input is not retried
  EXPECT_EQ(build.code, 2) << build.errors;
  expect_lines(build, 2, "start of engine mpi: the ranks differ: ", "the build is \"older\" on rank 1 (");
}

// Rank 2 has a different fact. All four ranks must report it.
TEST_F(Ranks, AllReportAFactThatDiffers) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const Program program = launch(4, "agreement");
  EXPECT_EQ(program.code, 2) << program.errors;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string line = "[" + std::to_string(rank) + "] strobe: the ranks differ: layers is 5 on rank 2 (" + host +
                             ") and 4 on rank 0 (" + host + ")\n";
    EXPECT_NE(program.errors.find(line), std::string::npos) << line << "not in: " << program.errors;
  }
}

TEST_F(Ranks, ConnectOnTheChosenInterface) {
  variables_ = "STROBE_INTERFACE=lo";
  EXPECT_EQ(launch(2, "values").code, 0);
  variables_ = "STROBE_INTERFACE=nowhere0";
  const Program program = launch(2, "values");
  EXPECT_EQ(program.code, 2) << program.errors;
  for (const char* rank : {"0", "1"}) {  // rank 1 must not keep waiting
    EXPECT_NE(program.errors.find("[" + std::string(rank) + "] strobe: rank " + rank + " of 2 on "), std::string::npos)
        << program.errors;
  }
  EXPECT_NE(program.errors.find("STROBE_INTERFACE is nowhere0: not an interface of this host"), std::string::npos);
}

TEST_F(Ranks, ARankWithoutTheTokenOfRankZeroIsRejected) {
  const Program program = run_command(
      "mpirun --allow-run-as-root --oversubscribe -n 1 env STROBE_TOKEN=0123456789abcdef '" STROBE_COMM_RANKS
      "' values : -n 1 '" STROBE_COMM_RANKS "' values",
      scratch_);
  EXPECT_NE(program.code, 0);
  EXPECT_NE(program.errors.find("STROBE_TOKEN is set on rank 0 and not on rank 1; valid: the same on all ranks, or "
                                "none\n"),
            std::string::npos)
      << program.errors;
}

TEST_F(Ranks, RestartAfterAFailure) {
  const Program program = launch(2, "restart", "--max-restarts 5 --restart-delay 0");
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.errors.find("launch: rank 1 ended with exit code 9; restart 2 of 5\n"), std::string::npos)
      << program.errors;
  const Program once = launch(2, "restart", "--max-restarts 1 --restart-delay 0");
  EXPECT_EQ(once.code, 9) << once.errors;
}

}  // namespace
}  // namespace strobe::test
