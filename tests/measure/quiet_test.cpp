// Tests measure/quiet: waiting until other threads of this process stop spinning, and the cores that a parent may
// use.
#include "measure/quiet.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/clock.h"

namespace strobe {
namespace {

// Uses several durations, shorter and longer than the scheduler's ticks of 1 to 10 ms.
TEST(Quiet, WaitsForAThreadThatSpins) {
  for (const double seconds : {2e-3, 5e-3, 11e-3, 3e-3, 7e-3, 16e-3, 4e-3, 9e-3}) {
    std::atomic<bool> begun{false}, ended{false};
    std::thread spins([&] {
      const double start = now_seconds();
      begun = true;
      while (now_seconds() - start < seconds) {
      }
      ended = true;
    });
    while (!begun) std::this_thread::yield();
    EXPECT_TRUE(wait_until_quiet(getpid()));
    EXPECT_TRUE(ended) << seconds;
    spins.join();
  }
}

TEST(Quiet, GivesUpOnAThreadThatKeepsSpinning) {
  std::atomic<bool> stop{false};
  std::thread spins([&] {
    while (!stop) {
    }
  });
  EXPECT_FALSE(wait_until_quiet(getpid()));
  stop = true;
  spins.join();
}

TEST(Quiet, SleepingThreadsAndUnknownProcessesAreQuiet) {
  std::atomic<bool> go{false};
  std::thread sleeps([&] { go.wait(false); });
  EXPECT_TRUE(wait_until_quiet(getpid()));
  EXPECT_TRUE(wait_until_quiet(-1));
  go = true;
  go.notify_one();
  sleeps.join();
}

TEST(Cores, CoresOfTheParentAreUsedUntilTheEndOfTheScope) {
  const std::vector<int> all = allowed_cores();
  if (all.size() < 2) GTEST_SKIP() << "one core";
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<int> few = pin_to_cores(1);
    bool fine = few.size() == 1 && allowed_cores() == few;
    {
      const CoresOfParent cores;
      fine = fine && allowed_cores() == all;
    }
    _exit(fine && allowed_cores() == few ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace strobe
