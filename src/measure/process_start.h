// Age of this process: the time that a user waits before main.
#pragma once

namespace strobe {

// Seconds since the process started, to 0.01 s; 0 if the system does not report it.
double seconds_since_process_start();

}  // namespace strobe
