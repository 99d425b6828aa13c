// How long this process has been there: what a user waits for before main.
#pragma once

namespace strobe {

// Seconds since the process was started, which the kernel tells to a hundredth of a second; 0 where it does not.
double seconds_since_process_start();

}  // namespace strobe
