// Measures the age of this process, so that commands can include the time before main().
#pragma once

namespace strobe {

// Returns the seconds since the process started, with a resolution of about 0.01 s; 0 if /proc is not readable.
double seconds_since_process_start();

}  // namespace strobe
