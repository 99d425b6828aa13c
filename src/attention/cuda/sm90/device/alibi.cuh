// ALiBi in the Hopper kernels: a thread subtracts slope * |row + offset - key| from its scores.
#pragma once

#include <type_traits>

namespace strobe::cuda::sm90 {

// Adds nothing. The kernels without ALiBi use it.
struct NoAlibi {
  __device__ __forceinline__ float add(float score, int) const { return score; }
};

// slope: in units of the scores. distance: row + offset - key of the thread's first score.
struct Alibi {
  float slope, distance;

  // further: distance of this score minus that of the thread's first one; a compile-time constant.
  __device__ __forceinline__ float add(float score, int further) const {
    return fmaf(-slope, fabsf(distance + static_cast<float>(further)), score);
  }
};

// Args with the field alibi_slopes, [Hq], select the kernels with ALiBi.
template <class Args>
concept HasAlibi = requires(const Args& args) {
  args.alibi_slopes;
};

// slope_scale: converts a slope in natural units. distance: as in Alibi.
template <class Args>
__device__ __forceinline__ auto alibi_of(const Args& args, int head, float slope_scale, int distance) {
  if constexpr (HasAlibi<Args>) {
    return Alibi{args.alibi_slopes[head] * slope_scale, static_cast<float>(distance)};
  } else {
    return NoAlibi{};
  }
}

}  // namespace strobe::cuda::sm90
