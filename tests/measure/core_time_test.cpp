// Tests measure/core_time: the processor time of this process and its children, and that of other processes.
#include "measure/core_time.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure/quiet.h"

namespace strobe {
namespace {

// Computes until the calling thread has used `seconds` of processor time.
void burn(double seconds) {
  timespec used{};
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  while (static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec) < seconds);
}

TEST(CoreTime, WorkOfThisProcessAndItsChildrenIsItsOwn) {
  const std::vector<int> cores = allowed_cores();
  const CoreTime before = core_time(cores);
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  burn(static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec) + 0.2);
  const CoreTime middle = core_time(cores);
  EXPECT_GE(middle.own - before.own, 0.15);  // 0.2 s were used; the clock has ticks of 10 ms
  EXPECT_GE(middle.all - before.all, 0.15);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    burn(0.2);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const CoreTime running = core_time(cores);
  EXPECT_GE(running.own - middle.own, 0.15);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_GE(core_time(cores).own, running.own);  // the time of a child that has exited still counts
  close(ready[0]);
  close(ready[1]);
}

TEST(CoreTime, TimeOfOthersExcludesOwnTime) {
  EXPECT_DOUBLE_EQ(cores_used_by_others({.all = 10, .own = 4}, {.all = 14, .own = 5}, 2), 1.5);
  EXPECT_EQ(cores_used_by_others({.all = 10, .own = 4}, {.all = 11, .own = 6}, 2),
            0);  // own time exceeds that of these cores
  EXPECT_EQ(cores_used_by_others({}, {.all = 1}, 0), 0);
}

}  // namespace
}  // namespace strobe
