// Implements Isa::forward_pipelined: software pipelining of three ForwardSteps, for engines whose matmuls leave the
// vector units idle. It overlaps the output of one step, the probabilities of the next, and the scores and logits of
// the third. Probabilities are computed a few rows at a time between tile multiplies, so matrix and vector units work
// at the same time. Each stage computes the same as forward_step.h. isa.h defines panels and lanes.
#pragma once

#include "attention/cpu/isa/forward_step.h"

namespace strobe::cpu {
namespace {

STROBE_INLINE void prefetch_lines(Prefetch& prefetch) {
#pragma GCC unroll 4
  for (const char* const tensor : prefetch.tensors) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(tensor) + prefetch.at), 0, 2);
  }
  prefetch.at = prefetch.at + prefetch.step < prefetch.last ? prefetch.at + prefetch.step : prefetch.last;
}

// Computes the probabilities of a step's scores, two tile rows at a time, writes them to the N operand and adds them to
// the sums. All lanes use the near formula if AllNear, else none does (see kNearExponent in isa.h). Does not support
// dropout.
template <class Engine, bool AllNear>
class ProbabilityRows {
 public:
  ProbabilityRows(const ForwardStep& a, const TileRange& range, float unit)
      : prefetch_(a.prefetch),
        scores_(a.scores),
        out_(static_cast<Element*>(a.probabilities) - range.first * kN),
        sums_(a.sum),
        row_(range.first),
        last_(range.last),
        factor_(broadcast(unit)) {
    for (int v = 0; v < kV; ++v) {
      const F32 max = finite_max(load(a.max + v * kLanes));
      zero_[v] = AllNear ? max * -unit : max;
    }
  }

  int groups() const { return (last_ - row_) / kRows; }

  STROBE_INLINE void advance() {
    static_assert(kRows * kN == kScoresOfFetch);
    if (prefetch_) prefetch_lines(*prefetch_);
    F32 weight[kRows * kV];
#pragma GCC unroll 8
    for (int i = 0; i < kRows * kV; ++i) {
      const F32 score = load(scores_ + (row_ + i % kRows) * kN + i / kRows * kLanes), zero = zero_[i / kRows];
      weight[i] = AllNear ? fma(score, factor_, zero) : (score - zero) * factor_;
    }
    Engine::exponentiate(weight);
#pragma GCC unroll 2
    for (int v = 0; v < kV; ++v) {
      const F32* const of_v = weight + v * kRows;
#pragma GCC unroll 4
      for (int i = 0; i < kRows; i += 2) {
        const F32 pair[2] = {of_v[i], of_v[i + 1]};
        Engine::boosted_to_n(pair, row_ + i, v, out_);
        sum_[v] += sum_all(pair);
      }
    }
    row_ += kRows;
    if (kCareful && row_ % 32 == 0) {  // a long plain sum of similar values drifts by several ulps
#pragma GCC unroll 2
      for (int v = 0; v < kV; ++v) {
        total_[v].add_exactly(sum_[v]);
        sum_[v] = F32{};
      }
    }
  }

  STROBE_INLINE void finish() {
    while (row_ < last_) advance();
    for (int v = 0; v < kV; ++v) {
      total_[v].add_exactly(sum_[v]);
      store(sums_ + v * kLanes, fma(total_[v].value, broadcast(1 / Engine::kBoost), load(sums_ + v * kLanes)));
    }
  }

 private:
  using Element = typename Engine::Element;
  static constexpr int kN = Engine::kN, kV = kN / kLanes, kRows = 2;
  static constexpr bool kCareful = Engine::kCompute == DType::fp32;
  static_assert(kV == 2);

  Prefetch* prefetch_;
  const float* scores_;
  Element* out_;
  float* sums_;
  std::ptrdiff_t row_, last_;
  F32 factor_, zero_[kV], sum_[kV]{};
  CarefulSum total_[kV]{{F32{}}, {F32{}}};
};

// Function object for `calls` calls between tile multiplies. Each call advances `rows` by an equal share of its groups.
template <class Rows>
class Interleaved {
 public:
  Interleaved(Rows& rows, int calls) : rows_(rows), share_(calls > 0 ? rows.groups() * kOne / calls : 0) {}
  STROBE_INLINE void operator()() {
    for (credit_ += share_; credit_ >= kOne; credit_ -= kOne) rows_.advance();
  }

 private:
  static constexpr int kOne = 1 << 12;
  Rows& rows_;
  int share_, credit_ = 0;
};

template <class Engine>
int panels_of(const ForwardStep& a) {
  const KeyRange keys = key_range<Engine>(a);
  return (keys.last - keys.first) / Engine::kM;
}

template <class Engine>
int chunks_of(const ForwardStep* a, int other) {
  return a ? panels_of<Engine>(*a) * other / Engine::kK : 0;
}

// Converts the scores of key panels [first, last) to logits and raises a.largest to their maximum.
template <class Engine>
void make_logits(const ForwardStep& a, int first, int last) {
  static_assert(kStep<Engine> == Engine::kM);  // so a range of panels is a range of steps
  const KeyRange keys = key_range<Engine>(a);
  const TileRange range = part_of(tile_range(*a.lanes, a.key_begin, keys.first, keys.last),
                                  keys.first + first * Engine::kM, keys.first + last * Engine::kM);
  if (!a.options->plain) {
    apply_options<Engine>(*a.options, *a.lanes, a.key_begin, a.key_count, range, a.scores, nullptr);
  }
  find_max<Engine>(a, range, a.largest);
}

// Returns the number of panels whose logits are computed early, while the panel is in L1 and the next panel is
// multiplied. The logits of the other panels are computed just before the step's probabilities. These other panels are
// the last one or, in fp32 with softcap, all: tanh in fp32 needs both vector multipliers, and AMX occupies one.
template <class Engine>
int early_panels(const ForwardStep& a) {
  return Engine::kCompute == DType::fp32 && a.options->softcap != 0 ? 0 : panels_of<Engine>(a) - 1;
}

template <class Engine, class Meanwhile>
STROBE_INLINE void score_matmuls(const ForwardStep& a, Meanwhile&& meanwhile) {
  using Element = typename Engine::Element;
  constexpr int kM = Engine::kM, kN = Engine::kN;
  const KeyRange keys = key_range<Engine>(a);
  for (int v = 0; v < kN; v += kLanes) store(a.largest + v, load(a.max + v));
  const int early = early_panels<Engine>(a);
  const auto stored = [&](int panel) STROBE_INLINE_LAMBDA {
    if (panel < early) make_logits<Engine>(a, panel, panel + 1);
  };
  Engine::template panel_matmuls<kN>(
      static_cast<const Element*>(a.k) + static_cast<std::ptrdiff_t>(keys.first) * a.d_steps,
      static_cast<std::ptrdiff_t>(kM) * a.d_steps, static_cast<const Element*>(a.q), a.d_steps, panels_of<Engine>(a),
      a.scores + keys.first * kN, false, meanwhile, stored);
}

template <class Engine, class Meanwhile>
STROBE_INLINE void output_matmuls(const ForwardStep& a, Meanwhile&& meanwhile) {
  using Element = typename Engine::Element;
  constexpr int kM = Engine::kM;
  const KeyRange keys = key_range<Engine>(a);
  Engine::add_matmuls(static_cast<const Element*>(a.v) + keys.first * kM,
                      static_cast<std::ptrdiff_t>(kM) * a.block_keys, static_cast<const Element*>(a.probabilities),
                      keys.last - keys.first, a.dv_rows / kM, a.o, a.shrink, meanwhile);
}

// Computes the output of `before`, the probabilities of `step` and the scores of `next`; any of them may be null. Each
// step has keys that some lane sees. Adjacent steps must not share scores, probabilities, shrink or largest.
template <class Engine>
void pipelined_once(const ForwardStep* before, const ForwardStep* step, const ForwardStep* next) {
  const auto panel_matmuls = [&](auto&& meanwhile) STROBE_INLINE_LAMBDA {
    if (before) output_matmuls<Engine>(*before, meanwhile);
    if (next) score_matmuls<Engine>(*next, meanwhile);
  };
  const auto nothing = [] {};
  if (!step) return panel_matmuls(nothing);

  const ForwardStep& a = *step;
  const CpuScoreOptions& options = *a.options;
  const KeyRange keys = key_range<Engine>(a);
  const TileRange range = tile_range(*a.lanes, a.key_begin, keys.first, keys.last);
  const float unit = options.exponent_factor();
  make_logits<Engine>(a, early_panels<Engine>(a), panels_of<Engine>(a));
  update_max<Engine>(a, a.largest, unit, a.shrink);
  for (int v = 0; v < Engine::kN; v += kLanes) store(a.sum + v, load(a.sum + v) * load(a.shrink + v));

  const int chunks =
      chunks_of<Engine>(before, before ? before->dv_rows : 0) + chunks_of<Engine>(next, next ? next->d_steps : 0);
  const auto make_probabilities = [&](auto&& rows) STROBE_INLINE_LAMBDA {
    panel_matmuls(Interleaved(rows, chunks * Engine::kMatmulsOfChunk));
    rows.finish();
  };
  const bool far = any_far<Engine>(a, unit);
  if (options.dropout || (far && options.bounded())) {
    if (options.dropout) draw_words<Engine>(options, *a.lanes, a.key_begin, keys.first, keys.last, a.words);
    exponentiate<Engine, true>(a, range, unit);
    panel_matmuls(nothing);
  } else if (far) {
    make_probabilities(ProbabilityRows<Engine, false>(a, range, unit));
  } else {
    make_probabilities(ProbabilityRows<Engine, true>(a, range, unit));
  }
}

// In a sequence of calls, the first passes only `next` and the last only `before`. Only the first configures the tile
// registers and only the last releases them, because both cost as much as a few tile multiplies.
template <class Engine>
void forward_pipelined(const ForwardStep* before, const ForwardStep* step, const ForwardStep* next) {
  if (!before && !step) Engine::begin();
  pipelined_once<Engine>(before, step, next);
  if (!step && !next) Engine::end();
}

}  // namespace
}  // namespace strobe::cpu
