// Implements Isa::backward_step: computes P and dS of one panel of query rows and one block of keys, in the operand
// layouts of the three matmuls that follow. isa.h defines panels and lanes.
#pragma once

#include "attention/cpu/isa/dropout.h"
#include "attention/cpu/isa/probability_exponent.h"
#include "attention/cpu/isa/scores.h"

namespace strobe::cpu {
namespace {

// Applies dropout to a vector of dP, and to P for dV. dS uses P without dropout.
struct DropLanes {
  const std::uint32_t* words;
  U32 threshold;
  F32 scale;
  explicit DropLanes(const BackwardStep& a)
      : words(a.words),
        threshold(broadcast(a.options->dropout_threshold)),
        scale(broadcast(a.options->dropout_scale)) {}
  STROBE_INLINE F32 operator()(std::ptrdiff_t at, F32 x) const {
    return load_vector<U32>(words + at) >= threshold ? x * scale : F32{};
  }
};

// Replaces scores by P and d_scores (dP) by dS in tile rows [first, last). The derivative of softcap is applied later.
template <class Engine, bool Dropout, class Exponent>
void softmax_gradient(const BackwardStep& a, int first, int last) {
  constexpr int kN = Engine::kN, kV = kN / kLanes, kRows = kGroup<Engine, false>;
  // Local copies of pointers: the compiler must assume that the stores change the fields of `a`.
  float *const scores = a.scores, *const d_scores = a.d_scores;
  [[maybe_unused]] const DropLanes drop(a);
  for (int v = 0; v < kV; ++v) {
    const Exponent exponent(a, v);
    const F32 delta = load(a.delta + v * kLanes);
    exp2_rows<Exponent::kDegree, kRows>(
        first, last, [&](std::ptrdiff_t r) STROBE_INLINE_LAMBDA { return exponent.rounded(r); },
        [&](std::ptrdiff_t r, const F32(&p)[kRows]) STROBE_INLINE_LAMBDA {
#pragma GCC unroll 4
          for (int i = 0; i < kRows; ++i) {
            const std::ptrdiff_t at = (r + i) * kN + v * kLanes;
            const F32 dp = load(d_scores + at);
            if constexpr (Dropout) {
              store(scores + at, drop(at, p[i]));
              store(d_scores + at, p[i] * (drop(at, dp) - delta));
            } else {
              store(scores + at, p[i]);
              store(d_scores + at, p[i] * (dp - delta));
            }
          }
        },
        exponent);
  }
}

template <class Engine, class Exponent>
void softmax_gradient(const BackwardStep& a, int first, int last) {
  a.options->dropout ? softmax_gradient<Engine, true, Exponent>(a, first, last)
                     : softmax_gradient<Engine, false, Exponent>(a, first, last);
}

// Like softmax_gradient, for an engine whose operands are not fp32: writes rows [first, last) of P and dS directly to
// the operands. With Masked, stores 0 where a lane does not see the key. With Capped, applies the derivative of
// softcap. first and last are multiples of kP.
template <class Engine, bool Masked, bool Capped>
void gradient_operands(const BackwardStep& a, int first, int last) {
  using Element = typename Engine::Element;
  constexpr int kM = Engine::kM, kN = Engine::kN, kV = kN / kLanes, kP = Engine::kP;
  using Exponent = typename ProbabilityExponentOf<Engine>::Type;
  // Local copies of pointers: the compiler must assume that the stores change the fields of `a`.
  const float *const d_scores = a.d_scores, *const slopes = a.slopes;
  Element *const p_m = static_cast<Element*>(a.p_m), *const ds_m = static_cast<Element*>(a.ds_m);
  Element* const ds_n = static_cast<Element*>(a.ds_n);
  const std::ptrdiff_t m_stride = a.m_stride;
  // Calls put(r, p, ds) with vector v of rows [r, r + kP), for each group of kP rows.
  const auto gradients = [&](int v, std::ptrdiff_t begin, std::ptrdiff_t end, auto put) STROBE_INLINE_LAMBDA {
    const Exponent exponent(a, v);
    const F32 delta = load(a.delta + v * kLanes);
    exp2_rows<Exponent::kDegree, kP>(
        begin, end, [&](std::ptrdiff_t r) STROBE_INLINE_LAMBDA { return exponent.rounded(r); },
        [&](std::ptrdiff_t r, F32(&p)[kP]) STROBE_INLINE_LAMBDA {
          F32 ds[kP];
#pragma GCC unroll 4
          for (int i = 0; i < kP; ++i) {
            const std::ptrdiff_t at = (r + i) * kN + v * kLanes;
            ds[i] = p[i] * (load(d_scores + at) - delta);
            if constexpr (Capped) ds[i] *= load(slopes + at);
            if constexpr (Masked) {
              const I32 seen = sees(*a.lanes, v, a.key_begin + static_cast<int>(r) + i);
              p[i] = seen ? p[i] : F32{};
              ds[i] = seen ? ds[i] : F32{};
            }
          }
          put(r, p, ds);
        },
        exponent);
  };
  if constexpr (whole_rows_to_m<Engine>()) {
    for (std::ptrdiff_t r = first; r < last; r += kP) {
      F32 p[kV][kP], ds[kV][kP];
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) {
        gradients(v, r, r + kP, [&](std::ptrdiff_t, const F32(&p_of)[kP], const F32(&ds_of)[kP]) STROBE_INLINE_LAMBDA {
          for (int i = 0; i < kP; ++i) {
            p[v][i] = p_of[i];
            ds[v][i] = ds_of[i];
          }
          Engine::lanes_to_n(ds[v], r, v, ds_n);
        });
      }
      const std::ptrdiff_t panel = r / kM * m_stride;
      Engine::rows_to_m(p, static_cast<int>(r % kM), p_m + panel);
      Engine::rows_to_m(ds, static_cast<int>(r % kM), ds_m + panel);
    }
  } else {
    for (int v = 0; v < kV; ++v) {
      gradients(v, first, last, [&](std::ptrdiff_t r, const F32(&p)[kP], const F32(&ds)[kP]) STROBE_INLINE_LAMBDA {
        const std::ptrdiff_t panel = r / kM * m_stride;
        Engine::lanes_to_m(p, static_cast<int>(r % kM), v, p_m + panel);
        Engine::lanes_to_m(ds, static_cast<int>(r % kM), v, ds_m + panel);
        Engine::lanes_to_n(ds, r, v, ds_n);
      });
    }
  }
}

template <class Engine, bool Capped>
void gradient_operands(const BackwardStep& a, const TileRange& range) {
  constexpr int kP = Engine::kP;
  const int free_first = round_up(range.free_first, kP);
  const int free_last = range.free_last / kP * kP < free_first ? free_first : range.free_last / kP * kP;
  gradient_operands<Engine, true, Capped>(a, range.first, free_first);
  gradient_operands<Engine, false, Capped>(a, free_first, free_last);
  gradient_operands<Engine, true, Capped>(a, free_last, range.last);
}

// Softmax and its gradient for a tile that holds all keys of its rows. Probabilities and delta are computed from the
// tile itself, so they do not have the rounding errors of LSE and O. In a row with one visible key
// and no sink, P is 1 and P (dP - delta) is exactly 0. On entry masked scores are -inf and their dP is 0.
template <class Engine>
void softmax_gradient_whole(const BackwardStep& a, int first, int last) {
  constexpr int kN = Engine::kN;
  const CpuScoreOptions& options = *a.options;
  const F32 scale = broadcast(options.unit), nothing = broadcast(-__builtin_inff());
  const DropLanes drop(a);
  for (int v = 0; v < kN / kLanes; ++v) {
    const F32 sink = a.sinks ? load(a.sinks + v * kLanes) : nothing;
    F32 largest = sink;
    for (int r = first; r < last; ++r) {
      float* at = a.scores + r * kN + v * kLanes;
      const F32 logit = load(at) * scale;
      store(at, logit);
      largest = max(largest, logit);
    }
    largest = largest == nothing ? F32{} : largest;
    CarefulSum sum{sink == nothing ? F32{} : exp_accurate(sink - largest)};
    for (int r = first; r < last; ++r) {
      float* at = a.scores + r * kN + v * kLanes;
      const F32 logit = load(at);
      const F32 p = logit == nothing ? F32{} : exp_accurate(logit - largest);
      store(at, p);
      sum.add(p);
    }
    const F32 divisor = sum.value == 0.0f ? broadcast(1.0f) : sum.value;
    CarefulSum delta{F32{}};
    for (int r = first; r < last; ++r) {
      const int at = r * kN + v * kLanes;
      const F32 p = load(a.scores + at) / divisor;
      F32 dp = load(a.d_scores + at);
      if (options.dropout) dp = drop(at, dp);
      store(a.scores + at, p);
      store(a.d_scores + at, dp);
      delta.add(p * dp);
    }
    store(a.max + v * kLanes, largest);
    const F32 less_d_lse = delta.value - load(a.lanes->d_lse + v * kLanes);
    store(a.sum + v * kLanes, sum.value);
    store(a.delta + v * kLanes, less_d_lse);
    for (int r = first; r < last; ++r) {
      const int at = r * kN + v * kLanes;
      const F32 p = load(a.scores + at);
      store(a.d_scores + at, p * (load(a.d_scores + at) - less_d_lse));
      if (options.dropout) store(a.scores + at, drop(at, p));
    }
  }
}

// Adds the sum of P * dP over this tile to delta_sum. Delta from this sum is more accurate than from dO * O, because O
// was rounded. On entry masked scores are -inf and their dP is 0.
template <class Engine, class Exponent>
void add_to_delta(const BackwardStep& a, int first, int last) {
  constexpr int kN = Engine::kN;
  const DropLanes drop(a);
  for (int v = 0; v < kN / kLanes; ++v) {
    const Exponent exponent(a, v);
    CarefulSum sum{load(a.delta_sum + v * kLanes)};
    for (int r = first; r < last; ++r) {
      const std::ptrdiff_t at = r * kN + v * kLanes;
      const F32 dp = load(a.d_scores + at);
      sum.add(exponent.weight(r) * (a.options->dropout ? drop(at, dp) : dp));
    }
    store(a.delta_sum + v * kLanes, sum.value);
  }
}

// Sets masked scores to `score` and their d_scores to 0. A score is masked if its key is outside the lane's range or
// excluded by the boolean mask.
template <class Engine>
void clear_masked(const BackwardStep& a, const TileRange& range, float score) {
  constexpr int kN = Engine::kN, kV = kN / kLanes;
  for_each_masked_row<Engine>(range, [&](int r) {
    for (int v = 0; v < kV; ++v) {
      const int at = r * kN + v * kLanes;
      const I32 seen = sees(*a.lanes, v, a.key_begin + r);
      store(a.scores + at, seen ? load(a.scores + at) : broadcast(score));
      store(a.d_scores + at, seen ? load(a.d_scores + at) : F32{});
    }
  });
  if (!a.options->mask) return;
  const int end = range.last < a.key_count ? range.last : a.key_count;
  for_each_mask_vector<Engine>(*a.options, *a.lanes, a.key_begin, range.first, end,
                               [&](int at, I32 allowed) STROBE_INLINE_LAMBDA {
                                 store(a.scores + at, allowed ? load(a.scores + at) : broadcast(score));
                                 store(a.d_scores + at, allowed ? load(a.d_scores + at) : F32{});
                               });
}

template <class Engine>
void backward_step(const BackwardStep& a) {
  using Element = typename Engine::Element;
  constexpr int kM = Engine::kM, kN = Engine::kN;
  const int first = a.first, last = a.last;
  const TileRange range = tile_range(*a.lanes, a.key_begin, first, last);
  const CpuScoreOptions& options = *a.options;
  using Near = ProbabilityExponent<kN>;
  using Far = FarProbabilityExponent<kN>;
  {
    const MatmulScope<Engine> scope;
    const int panels = (last - first) / kM;
    panel_matmuls<Engine, kN>(static_cast<const Element*>(a.k) + static_cast<std::ptrdiff_t>(first) * a.d_steps,
                              static_cast<std::ptrdiff_t>(kM) * a.d_steps, static_cast<const Element*>(a.q), a.d_steps,
                              panels, a.scores + first * kN, false, a.sum_chunk);
    panel_matmuls<Engine, kN>(static_cast<const Element*>(a.v) + static_cast<std::ptrdiff_t>(first) * a.dv_steps,
                              static_cast<std::ptrdiff_t>(kM) * a.dv_steps, static_cast<const Element*>(a.d_o),
                              a.dv_steps, panels, a.d_scores + first * kN, false, a.sum_chunk);
  }
  if (!options.plain) {
    apply_options<Engine>(options, *a.lanes, a.key_begin, a.key_count, range, a.scores,
                          options.softcap != 0 ? a.slopes : nullptr);
  }
  if (options.dropout) draw_words<Engine>(options, *a.lanes, a.key_begin, first, last, a.words);
  if (a.delta_sum) {
    clear_masked<Engine>(a, range, -__builtin_inff());
    return a.far ? add_to_delta<Engine, Far>(a, first, last) : add_to_delta<Engine, Near>(a, first, last);
  }
  if constexpr (kConverts<Engine>) {
    if (options.bounded() && !options.mask && !options.dropout && !a.p_tile && !a.whole && !a.far) {
      return options.softcap != 0 ? gradient_operands<Engine, true>(a, range)
                                  : gradient_operands<Engine, false>(a, range);
    }
  }
  if (a.whole) {
    clear_masked<Engine>(a, range, -__builtin_inff());
    softmax_gradient_whole<Engine>(a, first, last);
  } else {
    a.far ? softmax_gradient<Engine, Far>(a, first, last) : softmax_gradient<Engine, Near>(a, first, last);
  }
  clear_masked<Engine>(a, range, 0.0f);
  add_to_bias_gradient<Engine>(*a.lanes, a.key_begin, range.first, range.last, a.d_scores);
  if (options.softcap != 0) {
    // A masked slope may be NaN; dS must stay 0 there.
    for (int at = first * kN; at < last * kN; at += kLanes) {
      const F32 ds = load(a.d_scores + at);
      store(a.d_scores + at, ds == 0.0f ? ds : ds * load(a.slopes + at));
    }
  }

  if (a.p_tile) {
    for (int at = first * kN; at < last * kN; at += kLanes) {
      store(a.p_tile + at, load(a.scores + at));
      store(a.ds_tile + at, load(a.d_scores + at));
    }
    return;
  }
  for (int r = first; r < last; r += kM) {
    tile_to_m<Engine>(a.scores + r * kN, static_cast<Element*>(a.p_m) + r / kM * a.m_stride);
    tile_to_m<Engine>(a.d_scores + r * kN, static_cast<Element*>(a.ds_m) + r / kM * a.m_stride);
  }
  if constexpr (kConverts<Engine>) {
    tile_to_n<Engine>(a.d_scores + first * kN, last - first, static_cast<Element*>(a.ds_n) + first * kN);
  }
}

}  // namespace
}  // namespace strobe::cpu
