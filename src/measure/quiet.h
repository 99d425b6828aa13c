// Keeps measurements apart: which cores the process runs on, and waiting until spinning threads have gone to sleep.
#pragma once

#include <sys/types.h>

#include <vector>

namespace strobe {

// Restricts this process, and the children that it starts later, to `count` of the cores it may use now.
// Threads that exist already keep theirs. Returns the cores; empty where the system refuses.
std::vector<int> pin_to_cores(int count);

// The cores that this process may use, in order.
std::vector<int> own_cores();

// Waits until the threads of a process use less than a tenth of a core (OpenMP and BLAS workers spin for some
// milliseconds after a call and would slow down whoever is measured next), at most 50 ms.
void wait_until_quiet(pid_t process);

}  // namespace strobe
