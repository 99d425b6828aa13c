// Measured rates of this machine, which serve as ceilings of results. Each measurement takes about `seconds` and uses
// `threads` threads. It returns the best of several short runs, because the machine may be shared.
#pragma once

namespace strobe {

// Returns the rate of fp32 FMAs on registers, in FLOP/s (two per FMA).
double fma_rate(int threads, double seconds);

// Returns the instruction set of fma_rate on this machine: "neon", "avx2", "avx512" or "scalar".
const char* fma_instructions();

// Returns the rate of OpenBLAS's sgemm of row-major 2048 x 2048 matrices, in FLOP/s.
double sgemm_rate(int threads, double seconds);

// Returns the rate of memcpy on arrays larger than the caches, in bytes read plus bytes written per second.
double copy_rate(int threads, double seconds);

// Returns the overhead of the harness: the median time in seconds that its clock reports for a call that waits one
// microsecond.
double timed_microsecond();

// Returns the overhead of GPU timing: the seconds that events of the current GPU report for an empty kernel.
double gpu_timed_empty_kernel();

// Returns the rate of copies of 2 GiB within the memory of the current GPU, in bytes read plus written per second. Best
// of 20 runs.
double gpu_copy_rate();

}  // namespace strobe
