// process_vm_readv from a child that allows it, as Open MPI's ranks allow it to each other.
#include "cli/launch/single_copy.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strobe::cli {

bool single_copy_works() {
  static volatile int value = 42;  // at the same address in the child
  int ready[2];
  if (pipe(ready) != 0) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static_cast<void>(!write(ready[1], "r", 1));
    for (;;) pause();
  }
  char byte = 0;
  static_cast<void>(!read(ready[0], &byte, 1));
  int copy = 0;
  const iovec here{.iov_base = &copy, .iov_len = sizeof(copy)};
  const iovec there{.iov_base = const_cast<int*>(&value), .iov_len = sizeof(copy)};
  const bool works = process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof(copy) && copy == 42;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  return works;
}

}  // namespace strobe::cli
