// Measures processor time, to separate the load of this process from that of other processes. The bench reports
// the load of other processes.
#pragma once

#include <sys/types.h>

#include <vector>

namespace strobe {

// Processor time in seconds since an arbitrary start. Callers use the difference of two readings.
struct CoreTime {
  double all = 0;  // used on `cores` by all processes, plus time stolen by the hypervisor
  double own = 0;  // used on any core by this process and its descendants
};
CoreTime core_time(const std::vector<int>& cores);

// Returns the average number of cores that other processes used between two readings `seconds` apart; 0 if /proc/stat
// is not readable.
double cores_used_by_others(const CoreTime& before, const CoreTime& after, double seconds);

}  // namespace strobe
