// Tests child processes: requests, output, time limits, and how they end.
#include "process/child.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe {
namespace {

Printed run_shell(const char* script, double most_seconds = 600) {
  return run_to_end({"sh", "-c", script}, most_seconds);
}

TEST(RunToEnd, ReturnsTheOutputAndTheExitCode) {
  const Printed printed = run_shell("echo one; echo two; echo why >&2; exit 3");
  EXPECT_EQ(printed.text, "one\ntwo\n");
  EXPECT_EQ(printed.end.code, 3);
  EXPECT_EQ(printed.end.last_error, "why");
  EXPECT_EQ(run_shell("kill -9 $$").end.signal, 9);
  EXPECT_EQ(run_shell("echo one; printf two").text, "one\ntwo");
  EXPECT_EQ(run_shell("exec >&-; exit 3").end.code, 3);
}

TEST(RunToEnd, AReaderOfTheInputDoesNotBlock) { EXPECT_EQ(run_shell("cat; echo read").text, "read\n"); }

// The command leaves a background process behind that keeps the output open.
TEST(RunToEnd, DoesNotWaitForABackgroundProcess) {
  const Printed printed = run_shell("sleep 500 & echo $!", 300);
  EXPECT_EQ(printed.end.code, 0);
  const std::string kill = "kill " + printed.text;
  EXPECT_EQ(run_shell(kill.c_str()).end.code, 0) << "the background process had ended";
}

TEST(RunToEnd, ATimeLimitEndsIt) { EXPECT_THROW(run_shell("sleep 500", 0.1), Error); }

// A line that the child has written is received even with a time limit of 0.
TEST(Child, WrittenLinesAreReceivedWithoutWaiting) {
  Child child({"sh", "-c", "echo one; echo two"}, {});
  while (child.is_running()) {
  }
  std::string line;
  for (const char* const expected : {"one", "two"}) {
    ASSERT_EQ(child.hear(line, 0), Child::Heard::line);
    EXPECT_EQ(line, expected);
  }
  EXPECT_EQ(child.hear(line, 0), Child::Heard::end);
}

TEST(Child, ExitCodeIsKnownAfterTheChildEnded) {
  Child child({"sh", "-c", "exit 7"}, {});
  while (child.is_running()) {
  }
  EXPECT_LT(child.pid(), 0);
  EXPECT_THROW(child.request(Json::object({}), 1), ChildError);
  EXPECT_EQ(child.end(1).code, 7);
}

}  // namespace
}  // namespace strobe
