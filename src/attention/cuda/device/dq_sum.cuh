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

// One address register serves all slots: the thread's offset is added first, the slot's is an immediate.
template <int kThreads>
__device__ __forceinline__ void add_to_sum(float* sum, int slot, const float (&c)[4]) {
  float* const first = sum + sum_offset<kThreads>(0, 0, static_cast<int>(threadIdx.x));
  if constexpr (kReductionIsVector) {
    reduce_add(first + slot * kThreads * 4, c);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) reduce_add(first + (slot * 4 + e) * kThreads, c[e]);
  }
}

}  // namespace strobe::cuda
