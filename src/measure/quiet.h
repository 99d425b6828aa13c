// Isolates measurements: pins the process to cores and waits until spinning threads sleep.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <vector>

namespace strobe {

// Restricts this process, and the children that it starts later, to `count` of the cores it may use now.
// Existing threads keep their mask. Returns the cores; empty if the system refuses.
std::vector<int> pin_to_cores(int count);

// Returns the cores that this process may use, in order.
std::vector<int> allowed_cores();

// While it exists, the calling thread and the children that it starts may use all cores of the parent process. A
// launcher restricts a rank to some of its cores. Does nothing if the system refuses.
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

// Waits until no thread of the process except the caller's is runnable. OpenMP and BLAS workers spin after a call,
// usually for milliseconds, and would slow down the next measurement. Returns false if one is still runnable after 0.25
// s.
bool wait_until_quiet(pid_t process);

}  // namespace strobe
