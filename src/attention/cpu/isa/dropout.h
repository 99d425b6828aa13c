// Draws the random words of a tile for dropout: the first word of Philox4x32-10 on counter (b, hq, i, j), as in
// core/philox.h. Used by forward_step.h and backward_step.h. The ten rounds of two wide multiplies each are most of
// dropout's cost, so:
//  - the first three rounds, which mix few words, are mostly computed once per lane or once per key;
//  - the last two rounds compute only what the first word needs;
//  - on NEON, vector instructions compute four of six keys; scalar multiplies, which use other pipes, compute two.
#pragma once

#include <cstddef>

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Intermediate results of the first rounds that do not depend on the attention key j, for one vector of lanes.
struct PhiloxLanes {
  static constexpr std::uint32_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u;
  std::uint32_t of_batch;        // xored with j, this is the operand of a multiply in round 1
  std::uint32_t k0[10], k1[10];  // round keys
  // Parts of the Philox words (c0, c1, c2, c3) that do not depend on j, with round keys applied: c0 before round 2, and
  // c0, c1 and c2 before round 3. Rounds count from 0.
  alignas(64) std::uint32_t c0_second[kLanes], c0_third[kLanes], c1_third[kLanes], c2_third[kLanes];

  PhiloxLanes(const CpuScoreOptions& options, const Lanes& lanes, int v) {
    k0[0] = static_cast<std::uint32_t>(options.seed);
    k1[0] = static_cast<std::uint32_t>(options.seed >> 32);
    for (int round = 1; round < 10; ++round) {
      k0[round] = k0[round - 1] + 0x9E3779B9u;
      k1[round] = k1[round - 1] + 0xBB67AE85u;
    }
    const std::uint64_t batch = std::uint64_t{kM0} * static_cast<std::uint32_t>(options.batch);
    of_batch = static_cast<std::uint32_t>(batch >> 32) ^ k1[0];
    U32 high, low;
    multiply_wide(reinterpret_cast<U32>(load(lanes.row + v * kLanes)), kM1, high, low);
    store_vector<U32>(c0_second, low ^ k0[1]);
    multiply_wide(high ^ reinterpret_cast<U32>(load(lanes.head + v * kLanes)) ^ k0[0], kM0, high, low);
    store_vector<U32>(c2_third, low ^ k1[2]);
    multiply_wide(high ^ static_cast<std::uint32_t>(batch) ^ k1[1], kM1, high, low);
    store_vector<U32>(c0_third, high ^ k0[2]);
    store_vector<U32>(c1_third, low ^ k0[3]);
  }
  // Returns a 64-bit product. Its high word is xored into c0 before round 2, its low word into c0 before round 3.
  STROBE_INLINE std::uint64_t of_key(int key) const {
    return std::uint64_t{kM1} * (of_batch ^ static_cast<std::uint32_t>(key));
  }
};

// Computes the words of rows [first, last), an even number, in a tile with `stride` lanes. Even and odd lanes are in
// separate vectors of 64-bit elements, for 32 x 32 bit multiplies. Only low words are used; high words are arbitrary.
void draw_pairs(const PhiloxLanes& lanes, int key_begin, int first, int last, std::uint32_t* words,
                std::ptrdiff_t stride) {
  constexpr std::uint32_t kM0 = PhiloxLanes::kM0, kM1 = PhiloxLanes::kM1;
  const auto half = [](const std::uint32_t* from, int i) STROBE_INLINE_LAMBDA {
    const U64 both = load_vector<U64>(from);
    return i % 2 == 0 ? both : both >> 32;
  };
  for (int r = first; r < last; r += 2) {
    U64 c0[4], c1[4], c2[4], c3[4];  // even and odd lanes of key r, then those of key r + 1
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t of_key = lanes.of_key(key_begin + r + i / 2);
      c3[i] = multiply_low_words(half(lanes.c0_second, i) ^ (of_key >> 32), kM0);
      c0[i] = half(lanes.c0_third, i) ^ of_key;
      c1[i] = half(lanes.c1_third, i);
      c2[i] = half(lanes.c2_third, i) ^ (c3[i] >> 32);
    }
#pragma GCC unroll 5
    for (int round = 3; round < 8; ++round) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const U64 of_c0 = multiply_low_words(c0[i], kM0), of_c2 = multiply_low_words(c2[i], kM1);
        c0[i] = (of_c2 >> 32) ^ c1[i];
        if (round > 3) c0[i] ^= lanes.k0[round];
        c1[i] = of_c2;
        c2[i] = (of_c0 >> 32) ^ c3[i] ^ lanes.k1[round];
        c3[i] = of_c0;
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      c1[i] = multiply_low_words(c2[i], kM1);
      c2[i] = (multiply_low_words(c0[i], kM0) >> 32) ^ c3[i] ^ lanes.k1[8];
      c0[i] = (multiply_low_words(c2[i], kM1) >> 32) ^ c1[i] ^ lanes.k0[9];
    }
    for (int i = 0; i < 4; i += 2) {
      store_vector<U64>(words + (r + i / 2) * stride, (c0[i] & 0xffffffffu) | (c0[i + 1] << 32));
    }
  }
}

#if defined(__ARM_NEON)
// `volatile` keeps the compiler from reordering these instructions.
#define STROBE_ORDERED(Type, kind, name, instruction)                \
  STROBE_INLINE Type name(Type a, Type b) {                          \
    Type result;                                                     \
    asm volatile(instruction : "=" kind(result) : kind(a), kind(b)); \
    return result;                                                   \
  }
STROBE_ORDERED(U32, "w", ordered_product_low, "umull %0.2d, %1.2s, %2.2s")    // lanes 0 and 1
STROBE_ORDERED(U32, "w", ordered_product_high, "umull2 %0.2d, %1.4s, %2.4s")  // lanes 2 and 3
STROBE_ORDERED(U32, "w", ordered_multiply, "mul %0.4s, %1.4s, %2.4s")
STROBE_ORDERED(U32, "w", ordered_low_words, "uzp1 %0.4s, %1.4s, %2.4s")
STROBE_ORDERED(U32, "w", ordered_high_words, "uzp2 %0.4s, %1.4s, %2.4s")
STROBE_ORDERED(U32, "w", ordered_xor, "eor %0.16b, %1.16b, %2.16b")
STROBE_ORDERED(std::uint64_t, "r", ordered_product, "umull %0, %w1, %w2")
STROBE_ORDERED(std::uint64_t, "r", ordered_xor, "eor %0, %1, %2")
STROBE_ORDERED(std::uint64_t, "r", ordered_xor_high, "eor %0, %1, %2, lsr #32")  // a ^ (b >> 32)
#undef STROBE_ORDERED

// Computes the words of one key with vectors, in 16 steps of up to six operations. Each of the rounds 2 to 9 takes two
// steps, mostly multiplies first and then the rest.
struct PhiloxVector {
  U32 c0, c1, c2, c3;
  U32 p, q, s, t;  // products of c2 (lanes 0 and 1 in p, lanes 2 and 3 in q) and of c0 (in s and t)

  template <int Step, int Operation>
  STROBE_INLINE void work(const PhiloxLanes& lanes, int key, std::uint32_t* out) {
    constexpr int kRound = Step / 2 + 2;
    const U32 m0 = broadcast(PhiloxLanes::kM0), m1 = broadcast(PhiloxLanes::kM1);
    if constexpr (Step == 0) {
      std::uint64_t high = lanes.of_key(key) >> 32;
      if constexpr (Operation == 0) asm("" : "+r"(high));  // keeps the compiler from shifting in a vector register
      const U32 low = broadcast(static_cast<std::uint32_t>(lanes.of_key(key)));
      if constexpr (Operation == 0) c0 = broadcast(static_cast<std::uint32_t>(high));
      if constexpr (Operation == 1) c0 = ordered_xor(load_vector<U32>(lanes.c0_second), c0);
      if constexpr (Operation == 2) s = ordered_product_low(c0, m0);
      if constexpr (Operation == 3) t = ordered_product_high(c0, m0);
      if constexpr (Operation == 4) c0 = ordered_xor(load_vector<U32>(lanes.c0_third), low);
    } else if constexpr (Step == 1) {
      if constexpr (Operation == 0) c2 = ordered_high_words(s, t);
      if constexpr (Operation == 1) c3 = ordered_low_words(s, t);
      if constexpr (Operation == 2) c2 = ordered_xor(c2, load_vector<U32>(lanes.c2_third));
      if constexpr (Operation == 3) c1 = load_vector<U32>(lanes.c1_third);
    } else if constexpr (Step % 2 == 0 && kRound < 8) {
      if constexpr (Operation == 0) p = ordered_product_low(c2, m1);
      if constexpr (Operation == 1) q = ordered_product_high(c2, m1);
      if constexpr (Operation == 2 && kRound > 3) c1 = ordered_xor(c1, broadcast(lanes.k0[kRound]));
      if constexpr (Operation == 3) s = ordered_product_low(c0, m0);
      if constexpr (Operation == 4) t = ordered_product_high(c0, m0);
      if constexpr (Operation == 5) c3 = ordered_xor(c3, broadcast(lanes.k1[kRound]));
    } else if constexpr (kRound < 8) {
      if constexpr (Operation == 0) c0 = ordered_high_words(p, q);
      if constexpr (Operation == 1) c2 = ordered_high_words(s, t);
      if constexpr (Operation == 2) c0 = ordered_xor(c0, c1);
      if constexpr (Operation == 3 && kRound < 7) c1 = ordered_low_words(p, q);
      if constexpr (Operation == 4) c2 = ordered_xor(c2, c3);
      if constexpr (Operation == 5) c3 = ordered_low_words(s, t);
    } else if constexpr (Step == 12) {
      if constexpr (Operation == 0) c1 = ordered_multiply(c2, m1);
      if constexpr (Operation == 1) s = ordered_product_low(c0, m0);
      if constexpr (Operation == 2) t = ordered_product_high(c0, m0);
      if constexpr (Operation == 3) c3 = ordered_xor(c3, broadcast(lanes.k1[8]));
    } else if constexpr (Step == 13) {
      if constexpr (Operation == 0) c2 = ordered_high_words(s, t);
      if constexpr (Operation == 1) c1 = ordered_xor(c1, broadcast(lanes.k0[9]));
      if constexpr (Operation == 2) c2 = ordered_xor(c2, c3);
    } else if constexpr (Step == 14) {
      if constexpr (Operation == 0) p = ordered_product_low(c2, m1);
      if constexpr (Operation == 1) q = ordered_product_high(c2, m1);
    } else {
      if constexpr (Operation == 0) c0 = ordered_high_words(p, q);
      if constexpr (Operation == 1) store_vector<U32>(out, ordered_xor(c0, c1));
    }
  }
};

// Computes the word of one lane and key with scalars, in 8 steps of up to six operations. Each of the rounds 2 to 9
// takes one step.
struct PhiloxScalar {
  std::uint64_t c0, c1, c2, c3, p;  // only the low words are used

  template <int Step, int Operation>
  STROBE_INLINE void work(const PhiloxLanes& lanes, int lane, std::uint64_t of_key, std::uint64_t m0, std::uint64_t m1,
                          std::uint32_t* out) {
    constexpr int kRound = Step + 2;
    if constexpr (kRound == 2) {
      if constexpr (Operation == 0) c3 = ordered_xor_high(lanes.c0_second[lane], of_key);
      if constexpr (Operation == 1) c0 = ordered_xor(lanes.c0_third[lane], of_key);
      if constexpr (Operation == 2) c3 = ordered_product(c3, m0);
      if constexpr (Operation == 3) c1 = lanes.c1_third[lane];
      if constexpr (Operation == 4) c2 = ordered_xor_high(lanes.c2_third[lane], c3);
    } else if constexpr (kRound < 8) {
      if constexpr (Operation == 0) p = ordered_product(c2, m1);
      if constexpr (Operation == 1) c0 = ordered_product(c0, m0);
      if constexpr (Operation == 2 && kRound > 3) c1 = ordered_xor(c1, lanes.k0[kRound]);
      if constexpr (Operation == 3) c3 = ordered_xor(c3, lanes.k1[kRound]);
      if constexpr (Operation == 4) c1 = ordered_xor_high(c1, p);
      if constexpr (Operation == 5) {
        c2 = ordered_xor_high(c3, c0);
        c3 = c0;
        c0 = c1;
        c1 = p;
      }
    } else if constexpr (kRound == 8) {
      if constexpr (Operation == 0) c0 = ordered_product(c0, m0);
      if constexpr (Operation == 1) c1 = ordered_product(c2, m1);
      if constexpr (Operation == 2) c3 = ordered_xor(c3, lanes.k1[8]);
      if constexpr (Operation == 3) c1 = ordered_xor(c1, lanes.k0[9]);
      if constexpr (Operation == 4) c2 = ordered_xor_high(c3, c0);
    } else {
      if constexpr (Operation == 0) p = ordered_product(c2, m1);
      if constexpr (Operation == 1) out[lane] = static_cast<std::uint32_t>(ordered_xor_high(c1, p));
    }
  }
};

// Computes six keys at a time, alternating vector and scalar instructions. The four vectors are at different steps, so
// multiplies (which use two of the four vector pipes) overlap with other operations. Their dependency chains end at
// different times: three vectors finish during the next six keys. Neoverse's scheduler queues are too short for
// out-of-order execution to find such an order.
struct PhiloxSix {
  static constexpr int kDelay[4] = {0, 1, 8, 9};  // steps by which each vector lags
  const PhiloxLanes& lanes;
  std::ptrdiff_t stride;
  std::uint64_t m0 = PhiloxLanes::kM0, m1 = PhiloxLanes::kM1;
  int key = 0;
  std::uint32_t *out = nullptr, *out_before = nullptr;
  PhiloxVector vectors[4] = {};  // keys 0 .. 3
  PhiloxScalar scalars[4] = {};  // the lanes of key 4, then of key 5
  std::uint64_t of_key = 0;

  template <int Step, int I, int Operation>
  STROBE_INLINE void work() {
    constexpr bool kBefore = Step < kDelay[I];
    vectors[I].template work<Step - kDelay[I] + (kBefore ? 16 : 0), Operation>(
        lanes, key + I, (kBefore ? out_before : out) + I * stride);
    scalars[I].template work<Step % 8, Operation>(lanes, I, of_key, m0, m1, out + (4 + Step / 8) * stride);
  }
  template <int Step, int Operation>
  STROBE_INLINE void operation() {
    work<Step, 0, Operation>();
    work<Step, 1, Operation>();
    work<Step, 2, Operation>();
    work<Step, 3, Operation>();
    if constexpr (Operation < 5) operation<Step, Operation + 1>();
  }
  template <int Step>
  STROBE_INLINE void steps() {
    if constexpr (Step % 8 == 0) of_key = lanes.of_key(key + 4 + Step / 8);
    operation<Step, 0>();
    if constexpr (Step < 15) steps<Step + 1>();
  }
};

// Computes the words of rows [first, last), at least six, in a tile with `stride` lanes. Takes 4.6 clocks per word on
// Neoverse-V1, where draw_pairs() takes 10. The last six rows may overlap earlier ones, and they are computed twice to
// finish the vectors that lag.
void draw_sixes(const PhiloxLanes& lanes, int key_begin, int first, int last, std::uint32_t* words,
                std::ptrdiff_t stride) {
  PhiloxSix six{lanes, stride};
  asm("" : "+r"(six.m0), "+r"(six.m1));  // keeps the compiler from recomputing these constants for each use
  six.out = words + first * stride;
  for (int r = first; r < last + 6; r += 6) {
    const int at = r < last - 6 ? r : last - 6;
    six.out_before = six.out;
    six.out = words + at * stride;
    six.key = key_begin + at;
    six.steps<0>();
  }
}
#endif

// Computes the words of tile rows [first, last). `words` is a tile [key][kN].
template <class Engine>
void draw_words(const CpuScoreOptions& options, const Lanes& lanes, int key_begin, int first, int last,
                std::uint32_t* words) {
  constexpr int kN = Engine::kN;
  static_assert(kStep<Engine> % 2 == 0);
  key_begin += options.k_skipped;
  for (int v = 0; v < kN / kLanes; ++v) {
    const PhiloxLanes common(options, lanes, v);
#if defined(__ARM_NEON)
    if (last - first >= 6) {
      draw_sixes(common, key_begin, first, last, words + v * kLanes, kN);
      continue;
    }
#endif
    draw_pairs(common, key_begin, first, last, words + v * kLanes, kN);
  }
}

}  // namespace
}  // namespace strobe::cpu
