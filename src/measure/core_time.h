// Who used the processor: what a run needs to tell the load that others made from its own.
#pragma once

#include <sys/types.h>

#include <vector>

namespace strobe {

// Seconds of processor time so far; the difference of two of these is what counts.
struct CoreTime {
  double all = 0;  // on the cores, by anybody (and by the host of a virtual machine)
  double own = 0;  // by this process and those it has started, that run or were waited for, on any core
};
CoreTime core_time(const std::vector<int>& cores);

// Cores' worth of work that others did between the two, `seconds` apart; 0 where the system does not tell.
double cores_of_others(const CoreTime& before, const CoreTime& after, double seconds);

}  // namespace strobe
