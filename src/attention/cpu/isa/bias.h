// Adds a bias to the scores of a tile, and dS to the gradient of the bias. Both are [row][key] in the caller's memory,
// but a tile is [key][row]. Squares of kLanes rows and kLanes keys are therefore transposed in registers. Used by
// scores.h and backward_step.h.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "core/simd_memory.h"

namespace strobe::cpu {
namespace {

// Prefetch distance. Software prefetch is needed because the rows are more streams than the hardware prefetcher tracks.
inline constexpr int kAheadBytes = 192;

// Computes score * scale + bias in tile rows (keys) [first, end).
template <class Engine>
void add_bias(const CpuScoreOptions& options, const Lanes& lanes, F32 scale, int key_begin, int first, int end,
              float* tile) {
  constexpr int kN = Engine::kN;
  const std::ptrdiff_t size = options.bias_dtype == DType::fp32 ? 4 : 2;
  for (int lane = 0; lane < kN; lane += kLanes) {
    for (int r = first; r < end; r += kLanes) {
      const int keys = end - r < kLanes ? end - r : kLanes;
      F32 square[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const void* const row = lanes.bias[lane + i];
        __builtin_prefetch(static_cast<const char*>(row) + (key_begin + r) * size + kAheadBytes);
        square[i] = keys == kLanes ? load_as(row, options.bias_dtype, key_begin + r)
                                   : load_some(row, options.bias_dtype, key_begin + r, keys);
      }
      transpose(square);
      for (int i = 0; i < keys; ++i) {
        float* const at = tile + (r + i) * kN + lane;
        store(at, fma(load(at), scale, square[i]));
      }
    }
  }
}

// Returns true if the lanes' rows of dbias have increasing addresses, so all are distinct.
inline bool rows_apart(float* const* rows, int count) {
  bool apart = true;
  for (int i = 1; i < count; ++i) apart &= rows[i - 1] < rows[i];
  return apart;
}

// Adds dS in tile rows (keys) [first, last) to dbias. Each lane adds to the row of dbias that belongs to its query, for
// the keys that it sees.
template <class Engine>
void add_to_bias_gradient(const Lanes& lanes, int key_begin, int first, int last, const float* tile) {
  constexpr int kN = Engine::kN;
  if (!lanes.dbias[0]) return;
  for (int lane = 0; lane < lanes.count; lane += kLanes) {
    const int count = lanes.count - lane < kLanes ? lanes.count - lane : kLanes;
    float* const* const rows = lanes.dbias + lane;
    const bool apart = rows_apart(rows, count);
    for (int r = first; r < last; r += kLanes) {
      const int key = key_begin + r, keys = last - r < kLanes ? last - r : kLanes;
      F32 square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = i < keys ? load(tile + (r + i) * kN + lane) : F32{};
      transpose(square);
      if (apart && key >= lanes.lo_max && key + kLanes <= lanes.hi_min) {
        // All loads precede all stores. Rows are often whole pages apart, and a load waits for an earlier store to the
        // same page offset.
        for (int i = 0; i < count; ++i) square[i] += load(rows[i] + key);
        for (int i = 0; i < count; ++i) store(rows[i] + key, square[i]);
        continue;
      }
      for (int i = 0; i < count; ++i) {
        const int from = clamp(lanes.lo[lane + i] - key, 0, keys), to = clamp(lanes.hi[lane + i] - key, 0, keys);
        for (int at = from; at < to; ++at) rows[i][key + at] += square[i][at];
      }
    }
  }
}

}  // namespace
}  // namespace strobe::cpu
