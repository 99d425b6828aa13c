// The clock of every measurement on the host.
#pragma once

#include <chrono>

namespace strobe {

// Seconds since an arbitrary moment; never steps back.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strobe
