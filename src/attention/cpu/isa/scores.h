// Converts raw scores q.k to logits: applies scale, softcap, ALiBi, bias and boolean mask, each in a small loop over a
// tile in cache. A tile is fp32 [key][kN], one lane per query row. Also contains the calls of an engine's matmul and
// the conversions of tiles to operands. Used by forward_step.h and backward_step.h.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "attention/cpu/isa/bias.h"
#include "attention/cpu/isa/exp2_rows.h"
#include "attention/cpu/isa/mask.h"
#include "attention/cpu/isa/tanh.h"
#if defined(__AVX512F__)
#include "attention/cpu/isa/tanh_table.h"
#endif
#include "core/simd.h"

namespace strobe::cpu {
namespace {

inline constexpr float kLog2e = 1.44269504088896340736f;

// Scope that calls begin() and end() of the engine, if the engine has them. Any use of an engine's matmul must be in
// such a scope.
template <class Engine>
struct MatmulScope {
  MatmulScope() {
    if constexpr (requires { Engine::begin(); }) Engine::begin();
  }
  ~MatmulScope() {
    if constexpr (requires { Engine::end(); }) Engine::end();
  }
};

// Computes C_i (+)= M_i N for `panels` M panels.
template <class Engine, int Width>
STROBE_INLINE void whole_matmuls(const typename Engine::Element* m, std::ptrdiff_t m_stride,
                                 const typename Engine::Element* n, int steps, int panels, float* c, bool accumulate) {
  if constexpr (requires { Engine::template panel_matmuls<Width>(m, m_stride, n, steps, panels, c, accumulate); }) {
    Engine::template panel_matmuls<Width>(m, m_stride, n, steps, panels, c, accumulate);
  } else {
    for (int i = 0; i < panels; ++i) {
      Engine::template product<Width>(m + i * m_stride, n, steps, c + i * Engine::kM * Width, accumulate);
    }
  }
}

// Returns the largest number of steps that panel_matmuls() adds in one sum instead of partial sums of `sum_chunk`
// steps.
constexpr int most_of_one_sum_chunk(int sum_chunk) { return sum_chunk + sum_chunk / 2; }

// Computes C_i (+)= M_i N as whole_matmuls() does. In fp32, sums over more than 1.5 * sum_chunk steps are split into
// partial sums of `sum_chunk` steps to limit their rounding error. An engine that rounds less often may use longer
// partial sums (kSumChunkFactor).
template <class Engine, int Width>
STROBE_INLINE void panel_matmuls(const typename Engine::Element* m, std::ptrdiff_t m_stride,
                                 const typename Engine::Element* n, int steps, int panels, float* c, bool accumulate,
                                 int sum_chunk) {
  if constexpr (Engine::kCompute == DType::fp32) {
    if constexpr (requires { Engine::kSumChunkFactor; }) sum_chunk *= Engine::kSumChunkFactor;
    for (; steps > most_of_one_sum_chunk(sum_chunk);
         steps -= sum_chunk, m += sum_chunk * Engine::kM, n += sum_chunk * Width) {
      whole_matmuls<Engine, Width>(m, m_stride, n, sum_chunk, panels, c, accumulate);
      accumulate = true;
    }
  }
  whole_matmuls<Engine, Width>(m, m_stride, n, steps, panels, c, accumulate);
}

// Compensated (Kahan) sum.
struct CarefulSum {
  F32 value;
  F32 lost{};
  STROBE_INLINE void add(F32 x) {
    const F32 y = x - lost;
    const F32 next = value + y;
    lost = (next - value) - y;
    value = next;
  }
  // Like add(), but with the exact rounding error (2Sum), even if x is larger than the sum. Adding 0 then changes
  // nothing, so a sum does not depend on how many masked keys follow.
  STROBE_INLINE void add_exactly(F32 x) {
    const F32 y = x - lost;
    const F32 next = value + y, of_y = next - value;
    lost = (of_y - y) - (value - (next - of_y));
    value = next;
  }
};

// True if packed elements are not fp32, so that tiles must be converted to become operands.
template <class Engine>
inline constexpr bool kConverts = sizeof(typename Engine::Element) != sizeof(float);

// Tile rows per group of exponentials; Convert is true if the group is written as a converted operand.
template <class Engine, bool Convert>
inline constexpr int kGroup = Convert ? Engine::kP : kRowsAtOnce;

// Converts a tile [steps][kN] to an N panel. The engine's elements are not fp32 (kConverts).
template <class Engine>
void tile_to_n(const float* tile, int steps, typename Engine::Element* out) {
  constexpr int kN = Engine::kN, kP = Engine::kP;
  for (int t = 0; t < steps; t += kP) {
    for (int v = 0; v < kN / kLanes; ++v) {
      F32 rows[kP];
      for (int i = 0; i < kP; ++i) rows[i] = load(tile + (t + i) * kN + v * kLanes);
      Engine::lanes_to_n(rows, t, v, out);
    }
  }
}

// Returns true if the engine writes M panels from whole tile rows (rows_to_m) instead of single vectors (lanes_to_m).
template <class Engine>
constexpr bool whole_rows_to_m() {
  if constexpr (requires { Engine::kInterleaved; }) return Engine::kInterleaved;
  return false;
}

// Converts a tile [kM][kN] to kN steps of an M panel, for any engine.
template <class Engine>
void tile_to_m(const float* tile, typename Engine::Element* out) {
  constexpr int kN = Engine::kN, kP = Engine::kP;
  if constexpr (whole_rows_to_m<Engine>()) {
    for (int r = 0; r < Engine::kM; r += kP) {
      F32 rows[kN / kLanes][kP];
      for (int v = 0; v < kN / kLanes; ++v) {
        for (int i = 0; i < kP; ++i) rows[v][i] = load(tile + (r + i) * kN + v * kLanes);
      }
      Engine::rows_to_m(rows, r, out);
    }
  } else if constexpr (kConverts<Engine>) {
    for (int r = 0; r < Engine::kM; r += kP) {
      for (int v = 0; v < kN / kLanes; ++v) {
        F32 rows[kP];
        for (int i = 0; i < kP; ++i) rows[i] = load(tile + (r + i) * kN + v * kLanes);
        Engine::lanes_to_m(rows, r, v, out);
      }
    }
  } else {
    Engine::tile_to_m(tile, out);
  }
}

// Rows [first, last) of a block's tile. Every lane sees the keys of rows [free_first, free_last); other rows need a
// mask.
struct TileRange {
  int first, last;
  int free_first, free_last;
};

inline TileRange tile_range(const Lanes& lanes, int key_begin, int first, int last) {
  int free_first = clamp(lanes.lo_max - key_begin, first, last);
  int free_last = clamp(lanes.hi_min - key_begin, first, last);
  if (free_first >= free_last) free_first = free_last = last;
  return {first, last, free_first, free_last};
}

// Returns the part of a range in rows [first, last), which must be inside it.
inline TileRange part_of(const TileRange& range, int first, int last) {
  return {first, last, clamp(range.free_first, first, last), clamp(range.free_last, first, last)};
}

template <class Engine, class Body>
STROBE_INLINE void for_each_masked_row(const TileRange& range, Body&& body) {
  for (int r = range.first; r < range.free_first; ++r) body(r);
  for (int r = range.free_last; r < range.last; ++r) body(r);
}

// Returns a vector mask: all bits of a lane are set if that lane of vector v sees the key.
STROBE_INLINE I32 sees(const Lanes& lanes, int v, int key) {
  const I32 at = broadcast(key);
  return (at >= load(lanes.lo + v * kLanes)) & (at < load(lanes.hi + v * kLanes));
}

template <class Engine>
STROBE_INLINE auto tanh_for() {
  if constexpr (Engine::kCompute != DType::bf16) {
    return AccurateTanh{};
  } else {
#if defined(__AVX512F__)
    return TableTanh{};
#else
    return ShortTanh{};
#endif
  }
}

// Replaces scores q.k by tanh(scale / softcap * q.k). With Slope, also stores the derivative of that tanh.
template <class Engine, bool Slope>
void cap_scores(const CpuScoreOptions& options, const TileRange& range, float* tile, float* slopes) {
  constexpr int kN = Engine::kN, kAtOnce = kTanhAtOnce * kLanes;
  static_assert(kStep<Engine> * kN % kAtOnce == 0);
  auto tanh = tanh_for<Engine>();
  constexpr float kMost = 0x1.fffffep127f;  // the factor must be finite, because infinity times a score of 0 is NaN
  const float factor = options.scale / options.softcap * tanh.kScale;
  const F32 inner = broadcast(factor > kMost ? kMost : factor < -kMost ? -kMost : factor);
  const auto begin = [&](int at) STROBE_INLINE_LAMBDA {
    tanh.begin([&](int i) STROBE_INLINE_LAMBDA { return load(tile + at + i * kLanes) * inner; });
  };
  const int end = range.last * kN;
  begin(range.first * kN);
  for (int at = range.first * kN; at < end; at += kAtOnce) {
    F32 value[kTanhAtOnce], slope[kTanhAtOnce];
    tanh.template finish<Slope>(value, slope);
    begin(at + kAtOnce < end ? at + kAtOnce : at);
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      store(tile + at + i * kLanes, value[i]);
      if constexpr (Slope) store(slopes + at + i * kLanes, slope[i]);
    });
  }
}

// Converts scores q.k in the tile rows of `range` to logits divided by options.unit. If `slopes` is not null, it
// receives the derivative of softcap's tanh. The boolean mask is applied last. Tile rows past the sequence's end hold
// arbitrary values, and keys outside a lane's range are masked later.
template <class Engine>
void apply_options(const CpuScoreOptions& options, const Lanes& lanes, int key_begin, int key_count, TileRange range,
                   float* tile, float* slopes) {
  constexpr int kN = Engine::kN;
  const int first = range.first, last = range.last;
  if (options.softcap != 0) {
    if (slopes) {
      cap_scores<Engine, true>(options, range, tile, slopes);
    } else {
      cap_scores<Engine, false>(options, range, tile, nullptr);
    }
  }
  const F32 scale = broadcast(options.softcap != 0 ? options.softcap : options.scale);
  if (options.alibi) {
    for (int v = 0; v < kN / kLanes; ++v) {
      const F32 minus_slope = -load(lanes.slope + v * kLanes);
      I32 distance = load(lanes.diagonal + v * kLanes) - (key_begin + first);
      for (int r = first; r < last; ++r, distance -= 1) {
        float* at = tile + r * kN + v * kLanes;
        const F32 far = absolute(__builtin_convertvector(distance, F32));
        store(at, fma(far, minus_slope, load(at) * scale));
      }
    }
  } else if (!options.bias && scale[0] != options.unit) {
    for (int at = first * kN; at < last * kN; at += kLanes) store(tile + at, load(tile + at) * scale);
  }
  if (options.bias) {
    const int end = last < key_count ? last : key_count;
    add_bias<Engine>(options, lanes, options.alibi ? broadcast(1.0f) : scale, key_begin, first, end, tile);
  }
  if (options.mask) mask_scores<Engine>(options, lanes, key_begin, first, last < key_count ? last : key_count, tile);
}

}  // namespace
}  // namespace strobe::cpu
