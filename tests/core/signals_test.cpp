#include "core/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace strobe {
namespace {

// In processes of their own, whose handlers are theirs.
TEST(SignalsDeathTest, TwoAtOnceAreOneRequest) {
  EXPECT_EXIT(
      {
        remember_first_signal();
        raise(SIGTERM);
        raise(SIGINT);
        _exit(remembered_signal() == SIGTERM ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, ASecondRequestEnds) {
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

// timeout(1) tells a process and its group: the second comes while the first is being answered.
TEST(SignalsDeathTest, LastWordsAreSaidOnce) {
  EXPECT_EXIT(
      {
        end_cleanly_on_signals("test", []() noexcept {
          static_cast<void>(!write(STDERR_FILENO, "words,", 6));
          raise(SIGTERM);
        });
        raise(SIGINT);
      },
      testing::ExitedWithCode(128 + SIGINT), "^words,$");
}

}  // namespace
}  // namespace strobe
