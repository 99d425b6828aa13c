// Exponents of P in the backward pass. ProbabilityExponent has full fp32 accuracy, FarProbabilityExponent is for huge
// LSE, and ShortProbabilityExponent suffices for bf16. Included by backward_step.h.
#pragma once

#include "attention/cpu/isa/scores.h"

namespace strobe::cpu {
namespace {

// Exponent of P = 2^(factor * s - LSE log2(e)) for scores s in vector v of each tile row. Rounding a large exponent to
// fp32 would lose bits of P, so the integer part is subtracted before any rounding. LSE log2(e) is split into two
// floats. lse_high has so few bits that subtracting an integer from it is exact (see split_lse in row_preparation.h).
template <int N>
struct ProbabilityExponent {
  const float* scores;  // this vector of lanes, [key][N]
  F32 factor, minus_high, minus_low;

  ProbabilityExponent(const BackwardStep& a, int v)
      : scores(a.scores + v * kLanes),
        factor(broadcast(a.options->exponent_factor())),
        minus_high(-load(a.lse_high + v * kLanes)),
        minus_low(-load(a.lse_low + v * kLanes)) {}

  STROBE_INLINE F32 score(std::ptrdiff_t r) const { return load(scores + r * N); }
  STROBE_INLINE F32 rounded(std::ptrdiff_t r) const { return fma_memory(score(r), factor, minus_high); }
  // Exponent minus its integer part `floor`, in the four steps of exp2_rows (see PlainRest). The last step clamps the
  // result to at least -1. This has an effect only where exp2 has clamped `rounded`, and the power of two is 0 there.
  STROBE_INLINE F32 first(std::ptrdiff_t, F32, F32 floor) const { return ordered_subtract(minus_high, floor); }
  STROBE_INLINE F32 second(std::ptrdiff_t r, F32 f) const {
    if constexpr (kFused) return ordered_fma(score(r), factor, f);
    F64 sum = __builtin_convertvector(f, F64);
    add_product(sum, score(r), factor);
    return __builtin_convertvector(sum, F32);
  }
  STROBE_INLINE F32 third(std::ptrdiff_t, F32 f) const { return ordered_add(f, minus_low); }
  STROBE_INLINE F32 fourth(std::ptrdiff_t, F32 f) const { return ordered_max(broadcast(-1.0f), f); }

  STROBE_INLINE F32 weight(std::ptrdiff_t r) const {
    return exp2<kDegree>(rounded(r), [&](F32 x, F32 floor) STROBE_INLINE_LAMBDA {
      return fourth(r, third(r, second(r, first(r, x, floor))));
    });
  }
  static constexpr int kDegree = 6;
};

// Exponent of P if LSE is not near (BackwardStep::far); computed relative to the row's largest score.
template <int N>
struct FarProbabilityExponent : PlainRest {
  static constexpr int kDegree = ProbabilityExponent<N>::kDegree;
  const float* scores;  // this vector of lanes, [key][N]
  F32 factor, largest, minus_rest;

  FarProbabilityExponent(const BackwardStep& a, int v)
      : scores(a.scores + v * kLanes),
        factor(broadcast(a.options->exponent_factor())),
        largest(load(a.lse_high + v * kLanes)),
        minus_rest(-load(a.lse_low + v * kLanes)) {}

  STROBE_INLINE F32 rounded(std::ptrdiff_t r) const { return fma(load(scores + r * N) - largest, factor, minus_rest); }
  STROBE_INLINE F32 weight(std::ptrdiff_t r) const { return exp2<kDegree>(rounded(r)); }
};

// Exponent of P for probabilities that are rounded to bf16.
template <int N>
struct ShortProbabilityExponent : PlainRest {
  static constexpr int kDegree = 3;
  const float* scores;  // this vector of lanes, [key][N]
  F32 factor, minus_lse;

  ShortProbabilityExponent(const BackwardStep& a, int v)
      : scores(a.scores + v * kLanes),
        factor(broadcast(a.options->unit * kLog2e)),
        minus_lse(-(load(a.lse_high + v * kLanes) + load(a.lse_low + v * kLanes))) {}

  STROBE_INLINE F32 rounded(std::ptrdiff_t r) const { return fma_memory(load(scores + r * N), factor, minus_lse); }
};

template <class Engine, bool Bf16 = Engine::kCompute == DType::bf16>
struct ProbabilityExponentOf {
  using Type = ProbabilityExponent<Engine::kN>;
};
template <class Engine>
struct ProbabilityExponentOf<Engine, true> {
  using Type = ShortProbabilityExponent<Engine::kN>;
};

}  // namespace
}  // namespace strobe::cpu
