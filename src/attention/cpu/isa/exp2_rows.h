// Computes 2^x for the rows of a tile; used by forward_step.h and backward_step.h. On NEON the instructions are
// scheduled by hand, because Neoverse's scheduler queues are too short to overlap whole chains of dependent
// instructions. The range reduction of one group of rows overlaps with the polynomial of the previous group.
#pragma once

#include <cstddef>

#include "core/simd.h"

namespace strobe::cpu {
namespace {

#if defined(__ARM_NEON)
inline constexpr int kRowsAtOnce = 4;

// `volatile` keeps the compiler from reordering these instructions.
STROBE_INLINE F32 ordered_add(F32 a, F32 b) {
  asm volatile("fadd %0.4s, %1.4s, %2.4s" : "=w"(a) : "w"(a), "w"(b));
  return a;
}
STROBE_INLINE F32 ordered_subtract(F32 a, F32 b) {
  asm volatile("fsub %0.4s, %1.4s, %2.4s" : "=w"(a) : "w"(a), "w"(b));
  return a;
}
STROBE_INLINE F32 ordered_multiply(F32 a, F32 b) {
  asm volatile("fmul %0.4s, %1.4s, %2.4s" : "=w"(a) : "w"(a), "w"(b));
  return a;
}
STROBE_INLINE F32 ordered_fma(F32 a, F32 b, F32 c) {
  asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
  return c;
}
STROBE_INLINE F32 ordered_max(F32 a, F32 b) {  // NaN if either is NaN
  asm volatile("fmax %0.4s, %1.4s, %2.4s" : "=w"(a) : "w"(a), "w"(b));
  return a;
}
STROBE_INLINE F32 ordered_power(F32 shifted) {
  asm volatile("shl %0.4s, %1.4s, #23" : "=w"(shifted) : "w"(shifted));
  return shifted;
}

// Computes exp2 of four vectors at a time, in the same steps as exp2 in simd.h. The result is y times the power of two
// in `shifted`.
template <int Degree>
struct Exp2Group {
  F32 fraction[4], shifted[4], y[4];

  struct Constants {
    F32 magic = broadcast(0x1.8p23f + 127), lowest = broadcast(-127.0f);
    F32 first = broadcast(kExp2<Degree>[0].lanes[0]);
  };

  // Evaluates y and the power of this group. Interleaved with that, `other` completes its previous results,
  // put_previous() stores them, and `other` starts on the arguments next_x(i). next_rest subtracts their integer parts
  // (see PlainRest).
  template <class NextX, class NextRest, class PutPrevious>
  STROBE_INLINE void evaluate(const Constants& c, Exp2Group& other, NextX next_x, NextRest next_rest,
                              PutPrevious put_previous) {
    F32 floor[4];
    each([&](int i) STROBE_INLINE_LAMBDA {
      polynomial_step<1>(c, i);
      other.fraction[i] = next_x(i);
    });
    each([&](int i) STROBE_INLINE_LAMBDA {
      polynomial_step<2>(c, i);
      other.y[i] = ordered_multiply(other.y[i], other.shifted[i]);
    });
    each([&](int i) STROBE_INLINE_LAMBDA {
      if constexpr (Degree >= 5) polynomial_step<3>(c, i);
      other.fraction[i] = ordered_max(c.lowest, other.fraction[i]);
    });
    put_previous();
    each([&](int i) STROBE_INLINE_LAMBDA {
      if constexpr (Degree >= 5) polynomial_step<4>(c, i);
      other.shifted[i] = ordered_add(other.fraction[i], c.magic);
    });
    each([&](int i) STROBE_INLINE_LAMBDA {
      if constexpr (Degree >= 6) polynomial_step<5>(c, i);
      floor[i] = ordered_subtract(other.shifted[i], c.magic);
      shifted[i] = ordered_power(shifted[i]);
    });
    each([&](int i) STROBE_INLINE_LAMBDA { other.fraction[i] = next_rest.first(i, other.fraction[i], floor[i]); });
    each([&](int i) STROBE_INLINE_LAMBDA {
      polynomial_step<Degree>(c, i);
      other.fraction[i] = next_rest.second(i, other.fraction[i]);
    });
    each([&](int i) STROBE_INLINE_LAMBDA { other.fraction[i] = next_rest.third(i, other.fraction[i]); });
    each([&](int i) STROBE_INLINE_LAMBDA { other.fraction[i] = next_rest.fourth(i, other.fraction[i]); });
  }
  STROBE_INLINE void evaluate(const Constants& c) {
    each([&](int i) STROBE_INLINE_LAMBDA { polynomial_step<1>(c, i); });
    each([&](int i) STROBE_INLINE_LAMBDA { polynomial_step<2>(c, i); });
    if constexpr (Degree >= 5) each([&](int i) STROBE_INLINE_LAMBDA { polynomial_step<3>(c, i); });
    if constexpr (Degree >= 5) each([&](int i) STROBE_INLINE_LAMBDA { polynomial_step<4>(c, i); });
    if constexpr (Degree >= 6) each([&](int i) STROBE_INLINE_LAMBDA { polynomial_step<5>(c, i); });
    each([&](int i) STROBE_INLINE_LAMBDA { polynomial_step<Degree>(c, i); });
    each([&](int i) STROBE_INLINE_LAMBDA { shifted[i] = ordered_power(shifted[i]); });
  }
  STROBE_INLINE void finish() {
    each([&](int i) STROBE_INLINE_LAMBDA { y[i] = y[i] * shifted[i]; });
  }
  template <class X, class Rest>
  STROBE_INLINE void begin(const Constants& c, X x, Rest rest) {
    each([&](int i) STROBE_INLINE_LAMBDA {
      const F32 bounded = ordered_max(c.lowest, x(i));
      shifted[i] = bounded + c.magic;
      fraction[i] = rest.fourth(i, rest.third(i, rest.second(i, rest.first(i, bounded, shifted[i] - c.magic))));
    });
  }

 private:
  template <class Body>
  STROBE_INLINE static void each(Body body) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) body(i);
  }
  template <int Step>
  STROBE_INLINE void polynomial_step(const Constants& c, int i) {
    y[i] = horner(Step == 1 ? c.first : y[i], fraction[i], kExp2<Degree>[Step]);
  }
};
#else
inline constexpr int kRowsAtOnce = 1;
STROBE_INLINE F32 ordered_add(F32 a, F32 b) { return a + b; }
STROBE_INLINE F32 ordered_subtract(F32 a, F32 b) { return a - b; }
STROBE_INLINE F32 ordered_fma(F32 a, F32 b, F32 c) { return fma(a, b, c); }
STROBE_INLINE F32 ordered_max(F32 a, F32 b) { return max_keep_nan(a, b); }
#endif

// Subtracts the integer part of x in up to four steps, between which exp2_rows can interleave other work. PlainRest is
// for fp32 arguments; ProbabilityExponent in probability_exponent.h has arguments of higher precision.
struct PlainRest {
  STROBE_INLINE F32 first(std::ptrdiff_t, F32 x, F32 floor) const { return ordered_subtract(x, floor); }
  STROBE_INLINE F32 second(std::ptrdiff_t, F32 f) const { return f; }
  STROBE_INLINE F32 third(std::ptrdiff_t, F32 f) const { return f; }
  STROBE_INLINE F32 fourth(std::ptrdiff_t, F32 f) const { return f; }
};

// Adapts a Rest to Exp2Group, whose index i stands for row r + i.
template <class Rest>
struct RestFrom {
  const Rest& rest;
  std::ptrdiff_t r;
  STROBE_INLINE F32 first(int i, F32 x, F32 floor) const { return rest.first(r + i, x, floor); }
  STROBE_INLINE F32 second(int i, F32 f) const { return rest.second(r + i, f); }
  STROBE_INLINE F32 third(int i, F32 f) const { return rest.third(r + i, f); }
  STROBE_INLINE F32 fourth(int i, F32 f) const { return rest.fourth(r + i, f); }
};

// Calls put(r, y) with y[i] = 2^x(r + i) for each group of Rows rows in [first, last). last - first must be a multiple
// of Rows.
template <int Degree, int Rows, class X, class Put, class Rest = PlainRest>
STROBE_INLINE void exp2_rows(std::ptrdiff_t first, std::ptrdiff_t last, X x, Put put, const Rest& rest = {}) {
#if defined(__ARM_NEON)
  static_assert(Rows == 4);
  if (first >= last) return;
  const typename Exp2Group<Degree>::Constants constants;
  Exp2Group<Degree> even, odd{};
  const auto x_from = [&](std::ptrdiff_t r)
                          STROBE_INLINE_LAMBDA { return [&x, r](int i) STROBE_INLINE_LAMBDA { return x(r + i); }; };
  std::ptrdiff_t r = first;
  even.begin(constants, x_from(r), RestFrom<Rest>{rest, r});
  // The loop has no exit in its middle, because GCC would then spill a whole group in each iteration.
  if (r + 8 <= last) {
    even.evaluate(constants, odd, x_from(r + 4), RestFrom<Rest>{rest, r + 4}, []() STROBE_INLINE_LAMBDA {});
    for (; r + 16 <= last; r += 8) {
      odd.evaluate(constants, even, x_from(r + 8), RestFrom<Rest>{rest, r + 8},
                   [&]() STROBE_INLINE_LAMBDA { put(r, even.y); });
      even.evaluate(constants, odd, x_from(r + 12), RestFrom<Rest>{rest, r + 12},
                    [&]() STROBE_INLINE_LAMBDA { put(r + 4, odd.y); });
    }
    even.finish();
    put(r, even.y);
    odd.evaluate(constants);
    odd.finish();
    put(r + 4, odd.y);
    r += 8;
    if (r == last) return;
    even.begin(constants, x_from(r), RestFrom<Rest>{rest, r});
  }
  even.evaluate(constants);
  even.finish();
  put(r, even.y);
#else
  for (std::ptrdiff_t r = first; r < last; r += Rows) {
    F32 y[Rows];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      y[i] = exp2<Degree>(x(r + i), [&](F32 of, F32 floor) STROBE_INLINE_LAMBDA {
        return rest.fourth(r + i, rest.third(r + i, rest.second(r + i, rest.first(r + i, of, floor))));
      });
    }
    put(r, y);
  }
#endif
}

}  // namespace
}  // namespace strobe::cpu
