// What this machine can do, measured: the ceilings that results are held against. Each takes about `seconds`, uses
// `threads` threads and returns the best of several short runs, since the machine may be shared.
#pragma once

namespace strobe {

// fp32 fused multiply-adds from registers alone, in FLOP/s (two a multiply-add).
double fma_rate(int threads, double seconds);

// The instruction set that fma_rate uses here: "neon", "avx2", "avx512" or "scalar".
const char* fma_instructions();

// OpenBLAS's fp32 product of row-major matrices of 2048 x 2048, in FLOP/s.
double blas_product_rate(int threads, double seconds);

// Copying memory that no cache holds, in bytes read plus bytes written a second.
double copy_rate(int threads, double seconds);

// What the harness adds: the median, in seconds, of what its clock shows for a call that waits one microsecond.
double timed_microsecond();

// The same of the current GPU: what its events show for the smallest kernel.
double gpu_timed_nothing();

// Copying 2 GiB inside the memory of the current GPU, likewise; the best of 20 runs.
double gpu_copy_rate();

}  // namespace strobe
