// Measured rates of this machine, used as ceilings of results. Each takes about `seconds`, uses `threads` threads and
// returns the best of several short runs, because the machine may be shared.
#pragma once

namespace strobe {

// fp32 fused multiply-adds on registers, in FLOP/s (two per FMA).
double fma_rate(int threads, double seconds);

// The instruction set of fma_rate on this machine: "neon", "avx2", "avx512" or "scalar".
const char* fma_instructions();

// OpenBLAS's sgemm of row-major 2048 x 2048 matrices, in FLOP/s.
double sgemm_rate(int threads, double seconds);

// memcpy beyond the caches, in bytes read plus bytes written per second.
double copy_rate(int threads, double seconds);

// Overhead of the harness: median time, in seconds, that its clock reports for a call that waits one microsecond.
double timed_microsecond();

// The same for the current GPU: the time that its events report for an empty kernel.
double gpu_timed_empty_kernel();

// Copies 2 GiB inside the memory of the current GPU, in bytes read plus written per second; the best of 20 runs.
double gpu_copy_rate();

}  // namespace strobe
