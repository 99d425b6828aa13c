// Matmuls of fp32 elements that are split into two fp16 floats each (device/split_format.h), for the Hopper fp32
// kernels. A product of two split elements takes three MMAs. Tensor cores truncate sums towards zero, so accumulators
// hold short sums only: two k-steps of 16, smallest terms first. The caller adds each result with rounding.
#pragma once

#include <utility>

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// Calls body.operator()<index>() for each index below kCount.
template <int kCount, class Body>
__device__ __forceinline__ void for_each(Body&& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) { (body.template operator()<kIndex>(), ...); }
  (std::make_integer_sequence<int, kCount>());
}

// k-steps of 16 per rounded addition. With four, sums of one sign violate the exactness rule (tests/support/compare.h).
inline constexpr int kChained = 2;

template <int kCount>
__device__ __forceinline__ void add(float (&to)[kCount], const float (&from)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] += from[i];
}

// c[64][kN] = partial sum of A B^T over kSteps k-steps of 16 columns, from step kSteps * kGroup; A and B have kD
// columns. a: the first of this warpgroup's 64 rows in a tile of kARows rows; b: a tile of kN rows. A tile stores all
// first floats, [rows][kD], then all second ones.
template <int kN, int kD, int kARows, int kGroup, int kSteps = kChained>
__device__ __forceinline__ void start_scores(float (&c)[kN / 2], std::uint32_t a, std::uint32_t b) {
  const Operand left(a), right(b);
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 3 * kSteps; ++i) {
    const SplitMma term = split_mma<Fp32Scaled>(i / kSteps);
    const int step = kGroup * kSteps + i % kSteps, slab = step / 4, column = step % 4 * 32;
    Wgmma<Fp16, kN, RowsAre::columns>::run(
        c, left.plus(term.left * kSlabsBytes<kARows, kD> + slab * kSlabBytes<kARows> + column),
        right.plus(term.right * kSlabsBytes<kN, kD> + slab * kSlabBytes<kN> + column), i > 0);
  }
  wgmma_commit();
}

// Both split floats of 32 columns of an MMA result, as A operands of the next MMA.
struct LeftTerms {
  std::uint32_t term[2][kChained * 4];

  // s: 16 accumulators of a thread; up: power of two that scales them to fp16's range.
  __device__ __forceinline__ void take(const float* s, float up) {
#pragma unroll
    for (int i = 0; i < kChained * 4; ++i) {
      std::uint32_t both[2];
      split_to_words<Fp32Scaled>(both, s[2 * i] * up, s[2 * i + 1] * up);
      term[0][i] = both[0], term[1][i] = both[1];
    }
  }
};
__device__ __forceinline__ void settle(LeftTerms& terms) {
  settle(terms.term[0]);
  settle(terms.term[1]);
}

// c[64][64] = partial sum of A B over 32 k values, from 32 * kGroup, for the 64 columns of slab kSlab. b: a tile of
// kSteps rows, one per k value.
template <int kSteps, int kD, int kGroup, int kSlab>
__device__ __forceinline__ void start_output(float (&c)[32], const LeftTerms& terms, std::uint32_t b) {
  const Operand right(b);
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 3 * kChained; ++i) {
    const SplitMma term = split_mma<Fp32Scaled>(i / kChained);
    const int step = i % kChained;
    Wgmma<Fp16, 64, RowsAre::steps>::run(c, terms.term[term.left] + 4 * step,
                                         right.plus(term.right * kSlabsBytes<kSteps, kD> + kSlab * kSlabBytes<kSteps> +
                                                    (kGroup * kChained + step) * 2048),
                                         i > 0);
  }
  wgmma_commit();
}

}  // namespace strobe::cuda::sm90
