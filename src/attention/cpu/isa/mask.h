// Applies a boolean mask to a tile. The mask is [row][key] bytes in the caller's memory, but a tile is [key][row].
// Squares of kLanes rows and kLanes keys are therefore transposed in registers. Used by scores.h and backward_step.h.
#pragma once

#include "attention/cpu/isa.h"
#include "core/simd_memory.h"

namespace strobe::cpu {
namespace {

typedef std::uint8_t U8 __attribute__((vector_size(kLanes)));

// Returns a vector mask: all bits of lane i are set if i < count and element at + i of the mask row is not 0.
STROBE_INLINE I32 mask_elements(const std::uint8_t* row, std::ptrdiff_t stride, int at, int count) {
  I32 found{};
  if (stride == 1 && count == kLanes) {
    U8 bytes;
    __builtin_memcpy(&bytes, row + at, sizeof bytes);
    found = __builtin_convertvector(bytes, I32);
  } else {
    for (int i = 0; i < count; ++i) found[i] = row[(at + i) * stride];
  }
  return found != 0;
}

// Returns true if all kLanes lanes share one mask row, as with a key padding mask (row stride 0).
inline bool one_mask_row(const std::uint8_t* const* rows) {
  bool one = true;
  for (int i = 1; i < kLanes; ++i) one &= rows[i] == rows[0];
  return one;
}

// Calls body(offset in the tile, mask of allowed lanes) for each vector of tile rows [first, end). Tile rows are keys;
// `end` must not exceed the block's key count, since the mask has no bytes for later rows.
template <class Engine, class Body>
STROBE_INLINE void for_each_mask_vector(const CpuScoreOptions& options, const Lanes& lanes, int key_begin, int first,
                                        int end, Body&& body) {
  constexpr int kN = Engine::kN;
  const std::ptrdiff_t stride = options.mask_stride;
  for (int lane = 0; lane < kN; lane += kLanes) {
    const std::uint8_t* const* const rows = lanes.mask + lane;
    if (one_mask_row(rows)) {
      for (int r = first; r < end; ++r) {
        body(r * kN + lane, broadcast(rows[0][(key_begin + r) * stride] != 0 ? -1 : 0));
      }
      continue;
    }
    for (int r = first; r < end; r += kLanes) {
      const int keys = end - r < kLanes ? end - r : kLanes;
      F32 square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = as_float(mask_elements(rows[i], stride, key_begin + r, keys));
      transpose(square);
      for (int i = 0; i < keys; ++i) body((r + i) * kN + lane, reinterpret_cast<I32>(square[i]));
    }
  }
}

// Sets scores in tile rows [first, end) to -inf where the boolean mask is 0.
template <class Engine>
void mask_scores(const CpuScoreOptions& options, const Lanes& lanes, int key_begin, int first, int end, float* tile) {
  const F32 nothing = broadcast(-__builtin_inff());
  for_each_mask_vector<Engine>(options, lanes, key_begin, first, end, [&](int at, I32 allowed) STROBE_INLINE_LAMBDA {
    store(tile + at, allowed ? load(tile + at) : nothing);
  });
}

// Returns true if a lane's mask row allows the key, or if there is no boolean mask.
inline bool mask_allows(const CpuScoreOptions& options, const Lanes& lanes, int lane, int key) {
  return !options.mask || lanes.mask[lane][key * options.mask_stride] != 0;
}

}  // namespace
}  // namespace strobe::cpu
