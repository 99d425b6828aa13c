// Products of fp32 elements that are held as two fp16 parts (device/parts.h), for the Hopper kernels in fp32. Three
// products of parts make one of elements. Tensor cores cut off what does not fit an accumulator, always towards zero,
// so no sum stays in one for long: after two steps of 16, the smallest products first, it is to be added with rounding.
#pragma once

#include <utility>

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// body.operator()<index>() for each index below kCount.
template <int kCount, class Body>
__device__ __forceinline__ void for_each(Body&& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) { (body.template operator()<kIndex>(), ...); }
  (std::make_integer_sequence<int, kCount>());
}

// Steps of 16 that are summed before a rounded addition. With four, sums of one sign miss the exactness rule.
inline constexpr int kChained = 2;

template <int kCount>
__device__ __forceinline__ void add(float (&to)[kCount], const float (&from)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] += from[i];
}

// Both parts of a tile lie one behind the other, [kTileRows][kD] each.

// c[64][kN] = the share of kSteps steps, from step kSteps kGroup on, in A B^T, sums over the kD columns of both. a: the
// first of this warpgroup's 64 rows in a tile of kARows; b: a tile of kN rows.
template <int kN, int kD, int kARows, int kGroup, int kSteps = kChained>
__device__ __forceinline__ void start_scores(float (&c)[kN / 2], std::uint32_t a, std::uint32_t b) {
  const Operand left(a), right(b);
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 3 * kSteps; ++i) {
    const PlaneProduct part = plane_product<Fp32Scaled>(i / kSteps);
    const int step = kGroup * kSteps + i % kSteps, slab = step / 4, column = step % 4 * 32;
    Multiply<Fp16, kN, RowsAre::columns>::run(
        c, left.plus(part.left * kSlabsBytes<kARows, kD> + slab * kSlabBytes<kARows> + column),
        right.plus(part.right * kSlabsBytes<kN, kD> + slab * kSlabBytes<kN> + column), i > 0);
  }
  wgmma_commit();
}

// Both parts of 32 columns of a product's result, as left operands of the next.
struct LeftParts {
  std::uint32_t part[2][kChained * 4];

  // s: 16 of a thread's accumulators; up: a power of two that brings them to fp16's range.
  __device__ __forceinline__ void take(const float* s, float up) {
#pragma unroll
    for (int i = 0; i < kChained * 4; ++i) {
      std::uint32_t both[2];
      to_planes<Fp32Scaled>(both, s[2 * i] * up, s[2 * i + 1] * up);
      part[0][i] = both[0], part[1][i] = both[1];
    }
  }
};
__device__ __forceinline__ void settle(LeftParts& parts) {
  settle(parts.part[0]);
  settle(parts.part[1]);
}

// c[64][64] = the share of 32 steps, from step 32 kGroup on, in 64 columns of A B, those of slab kSlab. b: a tile of
// kSteps rows, of which a step takes one.
template <int kSteps, int kD, int kGroup, int kSlab>
__device__ __forceinline__ void start_output(float (&c)[32], const LeftParts& parts, std::uint32_t b) {
  const Operand right(b);
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 3 * kChained; ++i) {
    const PlaneProduct part = plane_product<Fp32Scaled>(i / kChained);
    const int step = i % kChained;
    Multiply<Fp16, 64, RowsAre::steps>::run(c, parts.part[part.left] + 4 * step,
                                            right.plus(part.right * kSlabsBytes<kSteps, kD> +
                                                       kSlab * kSlabBytes<kSteps> + (kGroup * kChained + step) * 2048),
                                            i > 0);
  }
  wgmma_commit();
}

}  // namespace strobe::cuda::sm90
