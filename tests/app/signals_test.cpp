// Tests signals that end the program, and signals that it only records. No signal may leave a temporary file.
#include "app/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/atomic_file.h"
#include "support/scratch.h"

namespace strobe {
namespace {

constexpr int kBatchSignals[] = {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

// Each test body runs in a separate process with its own handlers.
TEST(SignalsDeathTest, TwoSignalsAtTheSameTimeAreOneRequest) {
  EXPECT_EXIT(
      {
        remember_first_signal();
        raise(SIGTERM);
        raise(SIGINT);
        _exit(remembered_signal() == SIGTERM ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, ASecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        remember_first_signal();
        raise(SIGTERM);
        usleep(1'100'000);
        raise(SIGINT);
        _exit(7);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(SignalsDeathTest, BatchSignalsEndTheProgramCleanly) {
  for (const int number : kBatchSignals) {
    EXPECT_EXIT(
        {
          end_cleanly_on_signals("test", []() noexcept { static_cast<void>(!write(STDERR_FILENO, "message,", 8)); });
          raise(number);
        },
        testing::ExitedWithCode(128 + number), "^message,$")
        << number;
  }
}

// The kernel repeats SIGXCPU every second. Slurm sends SIGTERM some time after the batch signal.
TEST(SignalsDeathTest, RecordedBatchSignalsNeverEndTheProgram) {
  EXPECT_EXIT(
      {
        remember_first_signal();
        for (const int number : kBatchSignals) raise(number);
        usleep(1'100'000);
        for (const int number : kBatchSignals) raise(number);
        raise(SIGTERM);
        _exit(remembered_signal() == SIGUSR1 ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, SignalsThatTheParentIgnoresRemainIgnored) {
  for (const int number : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM}) {
    EXPECT_EXIT(
        {
          signal(number, SIG_IGN);
          end_cleanly_on_signals("test");
          raise(number);
          remember_first_signal();
          raise(number);
          _exit(remembered_signal() == 0 ? 7 : 8);
        },
        testing::ExitedWithCode(7), "")
        << number;
  }
}

// timeout(1) signals a process and its group: the second signal comes while the first is being handled.
TEST(SignalsDeathTest, TheMessageIsPrintedOnce) {
  EXPECT_EXIT(
      {
        end_cleanly_on_signals("test", []() noexcept {
          static_cast<void>(!write(STDERR_FILENO, "message,", 8));
          raise(SIGTERM);
        });
        raise(SIGINT);
      },
      testing::ExitedWithCode(128 + SIGINT), "^message,$");
}

// Sends SIGTERM after 100 different delays. The signal may arrive in the constructor, while the file has a temporary
// name, or between link and rename.
TEST(Signals, NoSignalLeavesAFile) {
  const test::Scratch scratch;
  const std::string name = (scratch.path() / "a.json").string();
  std::ofstream(name) << "old";
  for (int kill_after = 0; kill_after < 100; ++kill_after) {
    const pid_t child = fork();
    if (child == 0) {
      end_cleanly_on_signals("child");
      for (int i = 0;; ++i) {
        AtomicFile file(name);
        if (i % 2 == 0) file.temporary();
        if (i % 4 < 2) file.commit("new");
      }
    }
    usleep(static_cast<useconds_t>(1000 + 17 * kill_after));
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(scratch.entries(), 1u) << kill_after;
  }
}

}  // namespace
}  // namespace strobe
