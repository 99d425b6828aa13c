// The fp32 sum of dQ tiles in global memory. It lies in the order of registers: `slot` counts a thread's groups of four
// accumulators, so that a warp adds whole lines; the kernel that rounds dQ knows which element each one is.
#pragma once

#include "attention/cuda/device/ptx.cuh"

namespace strobe::cuda {

// Offset of accumulator e of a slot: four in a row where one instruction adds four, else threads side by side.
template <int kThreads>
__device__ __forceinline__ int sum_offset(int slot, int e, int thread) {
  return kReductionIsVector ? (slot * kThreads + thread) * 4 + e : (slot * 4 + e) * kThreads + thread;
}

template <int kThreads>
__device__ __forceinline__ void add_to_sum(float* sum, int slot, const float (&c)[4]) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (kReductionIsVector) {
    reduce_add(sum + sum_offset<kThreads>(slot, 0, thread), c);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) reduce_add(sum + sum_offset<kThreads>(slot, e, thread), c[e]);
  }
}

}  // namespace strobe::cuda
