// Keeps measurements apart: which cores the process runs on, and waiting until spinning threads have gone to sleep.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <vector>

namespace strobe {

// Restricts this process, and the children that it starts later, to `count` of the cores it may use now.
// Threads that exist already keep theirs. Returns the cores; empty where the system refuses.
std::vector<int> pin_to_cores(int count);

// The cores that this process may use, in order.
std::vector<int> own_cores();

// While it exists, the calling thread and the children that it starts may use the cores of the parent process. (A
// launcher restricts a rank to some of its own cores.) Does nothing if the system refuses.
class CoresOfParent {
 public:
  CoresOfParent();
  ~CoresOfParent();
  CoresOfParent(const CoresOfParent&) = delete;
  CoresOfParent& operator=(const CoresOfParent&) = delete;

 private:
  cpu_set_t before_{};
  bool changed_ = false;
};

// Waits until no thread of a process but the caller's wants a core: OpenMP and BLAS workers spin after a call, most for
// milliseconds, and would slow down whoever is measured next. False where one still does after a quarter of a second.
bool wait_until_quiet(pid_t process);

}  // namespace strobe
