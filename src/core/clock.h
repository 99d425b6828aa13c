// The clock of all host timings and timeouts.
#pragma once

#include <chrono>

namespace strobe {

// Returns seconds since an arbitrary start; never decreases.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strobe
