// Processor time by process, to separate this run's load from that of other processes.
#pragma once

#include <sys/types.h>

#include <vector>

namespace strobe {

// Processor seconds so far. Callers use the difference of two readings.
struct CoreTime {
  double all = 0;  // on the cores, by all processes (and by the host of a virtual machine)
  double own = 0;  // on any core, by this process and its running or waited-for children
};
CoreTime core_time(const std::vector<int>& cores);

// Average number of cores that other processes used between two readings `seconds` apart; 0 if the system does not
// report it.
double cores_used_by_others(const CoreTime& before, const CoreTime& after, double seconds);

}  // namespace strobe
