// Tests how a sweep attributes failures and times of its child processes to implementations. Shell scripts replace the
// children.
#include "bench/sweep/problem_runner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "bench/fake_python.h"
#include "support/scratch.h"

namespace strobe::bench {
namespace {

class ProblemRunnerTest : public testing::Test {
 protected:
  // Runs child processes with the shell code; returns their rows by implementation. The code calls step NAME and row
  // NAME to write events.
  std::map<std::string, Json> run(const std::string& code, double cell_limit) {
    const std::filesystem::path script = scratch_.program("child", R"(#!/bin/sh
step() { echo '{"step":"measure","implementation":"'$1'"}'; }
row() { echo '{"row":{"implementation":"'$1'","status":"ok","environment":{"ceilings":'${2:-null}'}}}'; }
)" + code);
    std::map<std::string, Json> rows;
    ProblemRunner runner({.program = script.string(),
                          .flags = {"--repeats=1"},
                          .quick = false,
                          .cell_limit = cell_limit,
                          .sweep = "here",
                          .row =
                              [&](Json row) {
                                const std::string name = row.at("implementation").as_string();
                                EXPECT_TRUE(rows.emplace(name, std::move(row)).second) << name;
                              },
                          .step = {}});
    runner.run(make_problem({}, {"flash2", "standard"}), {"--batch_size", "1"});
    return rows;
  }

  const test::Scratch scratch_;
};

TEST_F(ProblemRunnerTest, RowsGetTheProblemsConfiguration) {
  auto rows = run("row flash2 7; row standard 8", 20);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows["flash2"].at("sweep").as_string(), "here");
  EXPECT_EQ(rows["flash2"].at("config").at("shrink").as_integer(), 1);
  EXPECT_EQ(rows["standard"].at("environment").at("ceilings").as_integer(), 7);  // copied from the first row
}

// flash2 takes 12 steps of 0.5 s. Each is within its limit of 3 s, but their sum exceeds it.
TEST_F(ProblemRunnerTest, TimeCountsForTheRunningImplementation) {
  auto rows = run(R"(case "$*" in *flash2*) ;; *) row standard; exit ;; esac
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do step flash2; sleep 0.5; step standard; done; exit 3
)",
                  3);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows["flash2"].at("status").as_string(), "timeout");
  EXPECT_EQ(rows["standard"].at("status").as_string(), "ok");
}

TEST_F(ProblemRunnerTest, RowsRemainIfTheChildDies) {
  auto rows = run("step flash2; row flash2; step standard; kill -9 $$", 20);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows["flash2"].at("status").as_string(), "ok");
  EXPECT_EQ(rows["standard"].at("status").as_string(), "crashed");
  EXPECT_EQ(rows["standard"].at("signal").as_integer(), 9);
  EXPECT_EQ(rows["standard"].at("command").as_string(),
            "strobe bench --batch_size 1 --impl standard --repeats=1 --quick");
}

TEST_F(ProblemRunnerTest, AnEndWithoutAllRowsIsACrash) {
  auto rows = run("row flash2; exit 0", 20);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows["standard"].at("status").as_string(), "crashed");
}

TEST_F(ProblemRunnerTest, ARowOfAnotherImplementationIsRejected) {
  auto rows = run("row torch-sdpa; sleep 100", 20);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows["flash2"].at("status").as_string(), "crashed");
}

// The second of these child processes is killed before it reads the answer to a request.
TEST_F(ProblemRunnerTest, APythonWithAPendingRequestIsNotReused) {
  const test::FakePython python("*none*) ;;");
  const std::filesystem::path script = scratch_.program("child", R"(#!/bin/sh
for word; do case "$word" in --lent-python=*) echo "$word" >>"$0.lent" ;; esac; done
echo '{"command":"hello"}' >&3
case "$*" in *--lost*) kill -9 $$ ;; esac
read -r answer <&3
echo '{"row":{"implementation":"torch-sdpa","status":"ok","environment":{"ceilings":null}}}'
)");
  std::vector<std::string> statuses;
  ProblemRunner runner({.program = script.string(),
                        .flags = {},
                        .lends_python = true,
                        .sweep = {},
                        .row = [&](Json row) { statuses.push_back(row.at("status").as_string()); },
                        .step = {}});
  for (const char* word : {"--first", "--lost", "--third", "--fourth"}) {
    runner.run(make_problem({}, {"torch-sdpa"}), {word});
  }
  EXPECT_EQ(statuses, (std::vector<std::string>{"ok", "crashed", "ok", "ok"}));
  EXPECT_EQ(python.starts(), 2);
  std::istringstream lent(scratch_.read("child.lent"));
  const std::vector<std::string> processes{std::istream_iterator<std::string>(lent), {}};
  ASSERT_EQ(processes.size(), 4u);
  EXPECT_EQ(processes[0], processes[1]);
  EXPECT_NE(processes[1], processes[2]);
  EXPECT_EQ(processes[2], processes[3]);
}

TEST_F(ProblemRunnerTest, AProgramThatCannotStartIsAnError) {
  ProblemRunner runner({.program = "/nonexistent", .flags = {}, .sweep = {}, .row = {}, .step = {}});
  EXPECT_THROW(runner.run(make_problem({}, {"flash2"}), {}), Error);
}

}  // namespace
}  // namespace strobe::bench
