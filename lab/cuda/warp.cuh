// Reductions over the 32 threads of a warp, for rung `registers` and later rungs. All threads get the result.
#pragma once

namespace strobe::lab {

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

}  // namespace strobe::lab
