// The clock of every measurement on the host and of every timeout.
#pragma once

#include <chrono>

namespace strobe {

// Seconds since an arbitrary moment; never decreases.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strobe
