// Implements Isa::forward_step: scores, online softmax and output matmul of one panel of query rows and one block of
// keys. isa.h defines panels and lanes.
#pragma once

#include "attention/cpu/isa/dropout.h"
#include "attention/cpu/isa/scores.h"

namespace strobe::cpu {
namespace {

// Returns a mask of the near lanes (kNearExponent), which use the exponent s * factor - m * factor with a rounded
// second product. `exponent` is m * factor. With fused multiply-add the only other rounding is that of the result. The
// error of m * factor is common to the row, and LogitOfMax (plan.h) corrects LSE for it.
STROBE_INLINE I32 near_lanes(const CpuScoreOptions& options, F32 exponent) {
  if (!kFused || !options.may_be_near()) return I32{};
  return (exponent < kNearExponent) & (exponent > -kNearExponent);
}
STROBE_INLINE F32 finite_max(F32 m) { return m == -__builtin_inff() ? F32{} : m; }

// Returns the rounding error of m * factor in near lanes, 0 in other lanes.
STROBE_INLINE F32 rounding_of_exponent(const CpuScoreOptions& options, F32 m, float factor) {
  const F32 exponent = m * factor;
  return near_lanes(options, exponent) ? -fma(m, broadcast(factor), -exponent) : F32{};
}

// Sets scores of keys outside a lane's range to -inf, then raises `largest` to each lane's largest score.
template <class Engine>
void find_max(const ForwardStep& a, const TileRange& range, float* largest) {
  constexpr int kN = Engine::kN, kV = kN / kLanes;
  const F32 nothing = broadcast(-__builtin_inff());
  for_each_masked_row<Engine>(range, [&](int r) {
    for (int v = 0; v < kV; ++v) {
      float* at = a.scores + r * kN + v * kLanes;
      store(at, sees(*a.lanes, v, a.key_begin + r) ? load(at) : nothing);
    }
  });
  // Several independent chains per vector hide the latency of max.
  constexpr int kChains = kStep<Engine> % 4 == 0 ? 4 : 2;
  static_assert(kStep<Engine> % kChains == 0);  // the ends of the range are multiples of kChains too
  F32 chain[kChains][kV];
#pragma GCC unroll 4
  for (int i = 0; i < kChains; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) chain[i][v] = load(largest + v * kLanes);
  }
  for (int r = range.first; r < range.last; r += kChains) {
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) chain[i][v] = max(chain[i][v], load(a.scores + (r + i) * kN + v * kLanes));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kV; ++v) {
    F32 of_all = chain[0][v];
#pragma GCC unroll 4
    for (int i = 1; i < kChains; ++i) of_all = max(of_all, chain[i][v]);
    store(largest + v * kLanes, of_all);
  }
}

// Sets a.max to `found`, the largest score so far. Stores to `shrink` the factor that rescales sums of earlier blocks
// to the new maximum. Returns true if the maximum of some lane grew.
template <class Engine>
bool update_max(const ForwardStep& a, const float* found, float unit, float* shrink) {
  constexpr int kV = Engine::kN / kLanes;
  I32 grew{};
  for (int v = 0; v < kV; ++v) {
    const F32 before = load(a.max + v * kLanes), largest = load(found + v * kLanes), after = finite_max(largest);
    grew |= largest > before;
    const F32 rounding =
        rounding_of_exponent(*a.options, finite_max(before), unit) - rounding_of_exponent(*a.options, after, unit);
    store(shrink + v * kLanes, exp2<5>((before - after) * unit + rounding));
    store(a.max + v * kLanes, largest);
  }
  return any(grew);
}

// Computes probabilities exp(score - max) and adds them to a.sum. Writes them in place of the scores or, with Convert,
// directly to the N operand. Dropout does not change the sum; it drops a probability if its random word is below the
// threshold. AllNear (all lanes are near) saves one operation.
template <class Engine, bool AllNear, bool Convert, bool Dropout>
void exponentiate(const ForwardStep& a, const TileRange& range, float unit) {
  constexpr int kN = Engine::kN, kV = kN / kLanes, kRows = kGroup<Engine, Convert>;
  constexpr bool kCareful = Engine::kCompute == DType::fp32;
  constexpr int kDegree = kCareful ? 6 : 3;
  const F32 factor = broadcast(unit);
  // Local copies of pointers: the compiler must assume that the stores change the fields of `a`.
  float* const scores = a.scores;
  [[maybe_unused]] const std::uint32_t* const words = a.words;
  [[maybe_unused]] const U32 threshold = broadcast(a.options->dropout_threshold);
  [[maybe_unused]] typename Engine::Element* out = nullptr;
  if constexpr (Convert) out = static_cast<typename Engine::Element*>(a.probabilities) - range.first * kN;
  for (int v = 0; v < kV; ++v) {
    const F32 m = finite_max(load(a.max + v * kLanes)), minus_exponent = m * -unit;
    [[maybe_unused]] const I32 near = near_lanes(*a.options, -minus_exponent);
    F32 sum{};
    CarefulSum total{F32{}};
    exp2_rows<kDegree, kRows>(
        range.first, range.last,
        [&](std::ptrdiff_t r) STROBE_INLINE_LAMBDA {
          const F32 s = load(scores + r * kN + v * kLanes);
          const F32 rounded = fma_memory(s, factor, minus_exponent);
          if constexpr (AllNear) return rounded;
          return near ? rounded : (s - m) * factor;
        },
        [&](std::ptrdiff_t r, F32(&weight)[kRows]) STROBE_INLINE_LAMBDA {
          sum += sum_all(weight);
          // A long plain sum of similar values drifts by several ulps; partial sums of 32 rows cost nothing.
          if (kCareful && (r & 31) + kRows == 32) {
            total.add_exactly(sum);
            sum = F32{};
          }
          if constexpr (Dropout) {
#pragma GCC unroll 4
            for (int i = 0; i < kRows; ++i) {
              const U32 word = load_vector<U32>(words + (r + i) * kN + v * kLanes);
              weight[i] = word >= threshold ? weight[i] : F32{};
            }
          }
          if constexpr (Convert) {
            Engine::lanes_to_n(weight, r, v, out);
          } else {
#pragma GCC unroll 4
            for (int i = 0; i < kRows; ++i) store(scores + (r + i) * kN + v * kLanes, weight[i]);
          }
        });
    if (kCareful) {
      total.add_exactly(sum);
      sum = total.value;
    }
    store(a.sum + v * kLanes, load(a.sum + v * kLanes) + sum);
  }
}

// Returns true if some lane is not near (kNearExponent).
template <class Engine>
bool any_far(const ForwardStep& a, float unit) {
  I32 far{};
  for (int v = 0; v < Engine::kN / kLanes; ++v) {
    far |= ~near_lanes(*a.options, finite_max(load(a.max + v * kLanes)) * unit);
  }
  return any(far);
}

template <class Engine, bool Convert>
void exponentiate(const ForwardStep& a, const TileRange& range, float unit) {
  const bool far = any_far<Engine>(a, unit);
  if (a.options->dropout) {
    far ? exponentiate<Engine, false, Convert, true>(a, range, unit)
        : exponentiate<Engine, true, Convert, true>(a, range, unit);
  } else {
    far ? exponentiate<Engine, false, Convert, false>(a, range, unit)
        : exponentiate<Engine, true, Convert, false>(a, range, unit);
  }
}

inline float element_of(const void* row, DType dtype, int at) {
  if (dtype == DType::fp32) return static_cast<const float*>(row)[at];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(row)[at];
  return (dtype == DType::fp16 ? from_fp16(U16{} + bits) : from_bf16(U16{} + bits))[0];
}

// Computes O += P V element by element over allowed pairs only. In a matmul, a NaN in V would spread to rows for which
// its key is masked, because 0 * NaN is NaN.
template <class Engine>
void accumulate_isolated(const ForwardStep& a, const TileRange& range) {
  constexpr int kN = Engine::kN;
  for (int lane = 0; lane < kN; ++lane) {
    const int first = clamp(a.lanes->lo[lane] - a.key_begin, range.first, range.last);
    const int last = clamp(a.lanes->hi[lane] - a.key_begin, range.first, range.last);
    for (int r = first; r < last; ++r) {
      if (!mask_allows(*a.options, *a.lanes, lane, a.key_begin + r)) continue;
      const float weight = a.scores[r * kN + lane];
      for (int c = 0; c < a.dv; ++c) a.o[c * kN + lane] += weight * element_of(a.v_rows[r], a.dtype, c);
    }
  }
}

// Range of tile rows (keys of the block) that some lane sees, extended to multiples of kStep.
struct KeyRange {
  int first, last;
};
template <class Engine>
KeyRange key_range(const ForwardStep& a) {
  const int first = clamp(a.lanes->lo_min - a.key_begin, 0, a.block_keys) / kStep<Engine> * kStep<Engine>;
  const int seen = clamp(a.lanes->hi_max - a.key_begin, 0, a.key_count);
  return {first, first < seen ? round_up(seen, kStep<Engine>) : first};
}

// True if an engine's panel_matmuls() can also return the maximum of each column.
template <class Engine>
inline constexpr bool kFindsMax = requires(float* c) {
  Engine::template panel_matmuls<Engine::kN>(c, 0, c, 0, 0, c, false, c);
};

template <class Engine>
void forward_step(const ForwardStep& a) {
  using Element = typename Engine::Element;
  constexpr int kM = Engine::kM, kN = Engine::kN, kV = kN / kLanes;
  const auto [first, last] = key_range<Engine>(a);
  if (first >= last) return;
  const TileRange range = tile_range(*a.lanes, a.key_begin, first, last);
  const CpuScoreOptions& options = *a.options;
  const MatmulScope<Engine> scope;

  float largest[kMaxLanes];
  for (int v = 0; v < kV; ++v) store(largest + v * kLanes, load(a.max + v * kLanes));
  bool knows_largest = false;
  const auto* const k = static_cast<const Element*>(a.k) + static_cast<std::ptrdiff_t>(first) * a.d_steps;
  if constexpr (kFindsMax<Engine>) {
    knows_largest = options.plain && range.free_first == first && range.free_last == last &&
                    a.d_steps <= most_of_one_sum_chunk(a.sum_chunk);
    if (knows_largest) {
      Engine::template panel_matmuls<kN>(k, static_cast<std::ptrdiff_t>(kM) * a.d_steps,
                                         static_cast<const Element*>(a.q), a.d_steps, (last - first) / kM,
                                         a.scores + first * kN, false, largest);
    }
  }
  if (!knows_largest) {
    panel_matmuls<Engine, kN>(k, static_cast<std::ptrdiff_t>(kM) * a.d_steps, static_cast<const Element*>(a.q),
                              a.d_steps, (last - first) / kM, a.scores + first * kN, false, a.sum_chunk);
    if (!options.plain) {
      apply_options<Engine>(options, *a.lanes, a.key_begin, a.key_count, range, a.scores, nullptr);
    }
    find_max<Engine>(a, range, largest);
  }

  const float unit = options.exponent_factor();
  float shrink[kMaxLanes];
  if (update_max<Engine>(a, largest, unit, shrink) && !a.begins) {
    F32 factor[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      factor[v] = load(shrink + v * kLanes);
      store(a.sum + v * kLanes, load(a.sum + v * kLanes) * factor[v]);
    }
    float* const o = a.o;  // local copy: the compiler must assume that the stores change the fields of `a`
    const int end = a.dv_rows * kN;
    for (int at = 0; at < end; at += kN) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) store(o + at + v * kLanes, load(o + at + v * kLanes) * factor[v]);
    }
  }
  const bool isolate = a.v_rows && (options.mask || range.free_first > first || range.free_last < last);
  const auto* probabilities = reinterpret_cast<const Element*>(a.scores + first * kN);
  if constexpr (kConverts<Engine>) probabilities = static_cast<const Element*>(a.probabilities);

  if (options.dropout) draw_words<Engine>(options, *a.lanes, a.key_begin, first, last, a.words);
  if (isolate) {
    exponentiate<Engine, false>(a, range, unit);
    return accumulate_isolated<Engine>(a, range);
  }
  exponentiate<Engine, kConverts<Engine>>(a, range, unit);
  panel_matmuls<Engine, kN>(static_cast<const Element*>(a.v) + first * kM,
                            static_cast<std::ptrdiff_t>(kM) * a.block_keys, probabilities, last - first, a.dv_rows / kM,
                            a.o, !a.begins, kLongSumChunk);
}

}  // namespace
}  // namespace strobe::cpu
