// Softcap in the Hopper backward. Scores become cap * tanh(scale * q.k / cap). The derivative of the cap, 1 - tanh^2,
// multiplies dS. Called by kernel.cuh and pairs.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/args.h"

namespace strobe::cuda::sm90 {

template <class Args>
inline constexpr bool kCaps = std::is_same_v<Args, CapBackwardArgs>;

// Replaces scores q.k by probabilities, rounded to the A operand of dV, and by probabilities times the derivative of
// the cap. Registers cannot hold both in fp32, so both are pairs of T. lse: as in weigh().
template <class T, int kRows>
__device__ __forceinline__ void weigh_capped(const float (&s)[kRows / 2], std::uint32_t lse,
                                             const CapBackwardArgs& args, std::uint32_t (&probabilities)[kRows / 4],
                                             std::uint32_t (&capped)[kRows / 4]) {
  const std::uint32_t mine = lse + static_cast<std::uint32_t>(lane_index() % 4 * 8);
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
    const float2 rows = load_shared_pair(mine + n * 32);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = 4 * n + 2 * h;
      const float a = tanh_fast(s[i] * args.cap_inner), b = tanh_fast(s[i + 1] * args.cap_inner);
      const float p = exp2_fast(fmaf(a, args.cap_exponent, -rows.x));
      const float q = exp2_fast(fmaf(b, args.cap_exponent, -rows.y));
      probabilities[i / 2] = pack<T>(p, q);
      capped[i / 2] = pack<T>(fmaf(p * -a, a, p), fmaf(q * -b, b, q));
    }
  }
}

// Sets element i of packed pairs to 0.
template <int kCount>
__device__ __forceinline__ void clear_element(std::uint32_t (&pairs)[kCount], int i) {
  pairs[i / 2] &= i % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
}

}  // namespace strobe::cuda::sm90
