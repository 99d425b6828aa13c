// tanh and its derivative (slope) of several vectors at a time. Used for softcap by scores.h. The vectors are
// interleaved step by step, because a single chain of some 30 dependent instructions would mostly wait for latencies.
// The work is split into begin() and finish(), so the polynomials of the next vectors overlap with the division of the
// current ones.
#pragma once

#include "core/simd.h"

namespace strobe::cpu {
namespace {

inline constexpr int kTanhAtOnce = 4;

template <class Body>
STROBE_INLINE void for_each_vector(Body body) {
#pragma GCC unroll 4
  for (int i = 0; i < kTanhAtOnce; ++i) body(i);
}

// Evaluates one polynomial for several vectors.
template <int Count>
STROBE_INLINE void polynomial(const Coefficient (&c)[Count], const F32 (&x)[kTanhAtOnce], F32 (&y)[kTanhAtOnce]) {
  for_each_vector([&](int i) STROBE_INLINE_LAMBDA { y[i] = broadcast(c[0].lanes[0]); });
#pragma GCC unroll 6
  for (int k = 1; k < Count; ++k) {
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { y[i] = horner(y[i], x[i], c[k]); });
  }
}

// Accurate to fp32: computes tanh |x| = 1 - 2 r with r = 1 / (exp(2 |x|) + 1). The slope 4 r (1 - r) does not cancel
// near saturation, as 1 - tanh^2 would. Near 0, where 1 - 2 r cancels, the odd polynomial of Cephes' tanhf gives tanh.
struct AccurateTanh {
  static constexpr float kScale = 1;  // factor of the argument
  F32 x[kTanhAtOnce], divisor[kTanhAtOnce], near_zero[kTanhAtOnce];

  template <class X>
  STROBE_INLINE void begin(X argument) {
    const F32 magic = broadcast(0x1.8p23f + 127);  // as in exp2
    F32 f[kTanhAtOnce], power[kTanhAtOnce], y[kTanhAtOnce];
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      x[i] = argument(i);
      f[i] = min_keep_nan(broadcast(30.0f), absolute(x[i])) * 2.88539008177792681472f;  // 2 log2(e)
    });
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { power[i] = f[i] + magic; });
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      f[i] -= power[i] - magic;
      power[i] = as_float(as_bits(power[i]) << 23);
    });
    polynomial(kExp2Degree5, f, y);
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      divisor[i] = fma(y[i], power[i], broadcast(1.0f));
      f[i] = x[i] * x[i];
    });
    polynomial(kNearZero, f, y);
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { near_zero[i] = fma(y[i] * f[i], x[i], x[i]); });
  }
  template <bool Slope>
  STROBE_INLINE void finish(F32 (&value)[kTanhAtOnce], F32 (&slope)[kTanhAtOnce]) const {
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      const F32 r = 1.0f / divisor[i];
      const F32 far = copy_sign(fma(r, broadcast(-2.0f), broadcast(1.0f)), x[i]);
      value[i] = absolute(x[i]) < 0.625f ? near_zero[i] : far;
      if constexpr (Slope) slope[i] = absolute(x[i]) > 30.0f ? F32{} : 4.0f * r * (1.0f - r);
    });
  }

  static constexpr Coefficient kNearZero[] = {-0x1.75e1d4p-8f, 0x1.52269cp-6f, -0x1.b83c5ap-5f, 0x1.110726p-3f,
                                              -0x1.555532p-2f};
};

// For probabilities that are rounded to bf16: x P(x^2) / Q(x^2), fitted on [0, 7] with relative error 2e-6. Costs half
// as much as AccurateTanh. The slope has an absolute error of 4e-6; its relative error is not bounded. For |x| >= 7,
// where the true slope is smaller than this error, the result is 0.
struct ShortTanh {
  static constexpr float kScale = 1;
  F32 x[kTanhAtOnce], numerator[kTanhAtOnce], divisor[kTanhAtOnce];

  template <class X>
  STROBE_INLINE void begin(X argument) {
    F32 square[kTanhAtOnce];
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      x[i] = min_keep_nan(broadcast(7.0f), max_keep_nan(broadcast(-7.0f), argument(i)));
      square[i] = x[i] * x[i];
    });
    polynomial(kP, square, numerator);
    polynomial(kQ, square, divisor);
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { numerator[i] *= x[i]; });
  }
  template <bool Slope>
  STROBE_INLINE void finish(F32 (&value)[kTanhAtOnce], F32 (&slope)[kTanhAtOnce]) const {
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      value[i] = quotient(numerator[i], divisor[i]);
      if constexpr (Slope) slope[i] = absolute(x[i]) == 7.0f ? F32{} : fma(-value[i], value[i], broadcast(1.0f));
    });
  }

  static constexpr Coefficient kP[] = {-4.089127590886314e-09f, 6.169806927123348e-06f, 2.5768382404289616e-03f,
                                       0.1259979604234933f, 0.9999998355426517f};
  static constexpr Coefficient kQ[] = {1.8069789185187873e-04f, 2.235581747414705e-02f, 0.4593301022653259f, 1.0f};
};

}  // namespace
}  // namespace strobe::cpu
