// Measures rates of this machine, which bench/ceilings.h uses as upper bounds of results. Functions with `seconds`
// measure for about that time on `threads` threads. They return the best of several short calls, because the machine
// may be shared.
#pragma once

namespace strobe {

// Returns the rate of fp32 FMAs on registers, in FLOP/s (two per FMA).
double fma_rate(int threads, double seconds);

// Returns the instruction set of fma_rate on this machine: "neon", "avx2", "avx512" or "scalar".
const char* fma_instructions();

// Returns the rate of OpenBLAS's sgemm of row-major 2048 x 2048 matrices, in FLOP/s.
double sgemm_rate(int threads, double seconds);

// Returns the rate of memcpy between arrays of 64 MiB, in bytes read plus bytes written per second.
double copy_rate(int threads, double seconds);

// Returns the median time in seconds that the clock reports for a busy wait of 1 us. The excess over 1 us is the
// overhead of timing on the host.
double timed_microsecond();

// Returns the overhead of GPU timing: the median seconds that events of the current GPU report for filling 4 bytes.
double gpu_timed_small_fill();

// Returns the best rate of 20 copies of 2 GiB within the memory of the current GPU, in bytes read plus written per
// second.
double gpu_copy_rate();

}  // namespace strobe
