// Tests a program that starts with closed standard descriptors.
#include "app/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace strobe {
namespace {

// Runs numbered checks in a child process that starts with these standard descriptors closed. Returns the number of the
// first check that fails, or 0.
int check_with_closed(bool input, bool output, bool errors) {
  const bool closed[] = {input, output, errors};
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i <= 2; ++i) {
      if (closed[i]) close(i);
    }
    secure_standard_descriptors();
    char byte = 'x';
    if (open("/dev/null", O_WRONLY) <= 2) _exit(1);
    if (input && read(STDIN_FILENO, &byte, 1) != 0) _exit(2);
    for (const int i : {1, 2}) {
      errno = 0;
      if (closed[i] && (write(i, &byte, 1) != -1 || errno != EBADF)) _exit(3);
      if (fcntl(i, F_GETFD) != 0) _exit(4);  // must be open and not close-on-exec
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardDescriptors, NoFileGetsTheNumberOfAClosedDescriptor) {
  for (int which = 0; which < 8; ++which) {
    EXPECT_EQ(check_with_closed((which & 1) != 0, (which & 2) != 0, (which & 4) != 0), 0) << which;
  }
}

}  // namespace
}  // namespace strobe
