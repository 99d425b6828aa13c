// Isolates measurements: pins the process to cores and waits until spinning threads sleep.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <vector>

namespace strobe {

// Restricts the calling thread, and the threads and processes that it starts later, to `count` of the cores that it may
// use now. Other existing threads keep their mask. Returns the cores; empty if the system refuses.
std::vector<int> pin_to_cores(int count);

// Returns the cores that the calling thread may use, in ascending order.
std::vector<int> allowed_cores();

// While this object exists, the calling thread and the processes that it starts have the affinity mask of the parent
// process. A rank uses it to start a process on all cores, because the launcher restricts each rank to some of the
// cores. Does nothing if the system refuses.
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

// Waits until no thread of the process except the caller is runnable. OpenMP and BLAS workers spin after a call,
// usually for milliseconds, and would slow down the next measurement. Returns false if a thread is still runnable after
// 0.25 s.
bool wait_until_quiet(pid_t process);

}  // namespace strobe
