// Scales of fp32 elements (split_format.h) in the sm80 backward. An MMA that sums over rows consumes 16 rows, so each
// group of 16 tile rows shares a power of two. Warps divide the keys of a tile, so probabilities and score gradients
// have one power of two per 16 rows and warp.
#pragma once

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/sequence.cuh"

namespace strobe::cuda {

inline constexpr int kGroupRows = 16;

template <int kCount>
__device__ __forceinline__ void load_scales(float (&values)[kCount], std::uint32_t scales, int first) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = bits_to_float(load_shared(scales + static_cast<std::uint32_t>((first + i) * 4)));
  }
}

// Shared-memory addresses of the fp32 powers of two that undo the group scales: q and d_o [row groups], k and v [key
// groups], probabilities and gradients [row groups][kPieces]. kPieces: number of warps that divide the keys of a tile.
template <int kRows, int kKeys, int kPieces>
struct GroupScales {
  static constexpr int kRowGroups = kRows / kGroupRows, kKeyGroups = kKeys / kGroupRows;
  std::uint32_t q, d_o, k, v, probabilities, gradients;

  __device__ __forceinline__ explicit GroupScales(std::uint32_t base)
      : q(base),
        d_o(q + 4 * kRowGroups),
        k(d_o + 4 * kRowGroups),
        v(k + 4 * kKeyGroups),
        probabilities(v + 4 * kKeyGroups),
        gradients(probabilities + 4 * kRowGroups * kPieces) {}

  // Byte offset of the scale of a row group and of the keys of warp `piece`.
  __device__ static __forceinline__ std::uint32_t offset(int row_group, int piece) {
    return static_cast<std::uint32_t>((row_group * kPieces + piece) * 4);
  }
};

// Scale of a group. each_value(take) calls take(value) for all values that this lane has of the group.
template <class EachValue>
__device__ __forceinline__ RowScale group_scale(EachValue&& each_value) {
  LargestFinite largest;
  each_value([&](float value) { largest.take(value); });
  largest.bits = warp_max(largest.bits);
  return RowScale(largest);
}

// Factor that undoes the scales of two groups in their matmul. It is clamped to a finite value, so that zeros stay
// zeros.
__device__ __forceinline__ float matmul_scale(float a, float b) { return fminf(a * b, 0x1.fffffep+127f); }

// Loads two tiles of fp32 rows (Q and dO, or K and V) to shared memory. A warp loads whole groups; rows must allow
// 16-byte vectors. first: first row of the tiles. used: tile rows to load; the others become zeros and do not affect
// any scale. scales: address of the group scales of the first tile; those of the second tile follow.
template <class T, int kRows, int kColumns, int kWarps>
__device__ __forceinline__ void load_groups(const Rows<T>& from_a, const Rows<T>& from_b, int first, Keys used,
                                            std::uint32_t tile_a, std::uint32_t tile_b, std::uint32_t scales) {
  using Shape = Tile<kColumns>;
  constexpr int kLanes = kChunkLanes<kColumns>;  // lanes per row
  constexpr int kStep = kWarpLanes / kLanes;     // rows per warp and step
  constexpr int kSteps = kGroupRows / kStep;
  constexpr int kGroups = kRows / kGroupRows;  // groups per tile
  constexpr int kTurns = kGroups / kWarps;
  static_assert(kTurns * kWarps == kGroups && Shape::kChunks == kLanes);
  const int chunk = lane_index() % kLanes;
  const auto group_at = [](int turn) { return turn * kWarps + warp_index(); };
  const auto row_at = [&](int turn, int step) {
    return group_at(turn) * kGroupRows + step * kStep + lane_index() / kLanes;
  };
  ChunkCopy<T, false, kRows * kColumns * 2> chunks[2][kTurns][kSteps];
#pragma unroll
  for (int ab = 0; ab < 2; ++ab) {
    const Rows<T>& from = ab == 0 ? from_a : from_b;
#pragma unroll
    for (int t = 0; t < kTurns; ++t) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const int row = row_at(t, i);
        const float* source = from.data + (first + row) * from.row + chunk * 8;
        chunks[ab][t][i].take(0, source, 1, true, row >= used.lo && row < used.hi ? from.columns - chunk * 8 : 0);
      }
    }
  }
#pragma unroll
  for (int ab = 0; ab < 2; ++ab) {
#pragma unroll
    for (int t = 0; t < kTurns; ++t) {
      const RowScale scale = group_scale([&](auto&& take) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
          for (int e = 0; e < 8; ++e) take(chunks[ab][t][i].held[e]);
        }
      });
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        chunks[ab][t][i].put((ab == 0 ? tile_a : tile_b) + Shape::offset(row_at(t, i), chunk), scale.up);
      }
      if (lane_index() == 0) {
        store_shared(scales + static_cast<std::uint32_t>((ab * kGroups + group_at(t)) * 4), float_to_bits(scale.down));
      }
    }
  }
}

// Factors that undo the group scales in the matmuls of dV (probabilities and dO) and dK (score gradients and Q), for
// kKeys keys from first_key. Both matmuls sum over rows. Unscaled types need no factor.
template <bool kScaled, int kRows, int kKeys>
struct GradientUnits : UnitOne {
  template <class Scales>
  __device__ __forceinline__ GradientUnits(const Scales&, std::uint32_t, std::uint32_t, int, int) {}
};

template <int kRows, int kKeys>
struct GradientUnits<true, kRows, kKeys> {
  float of[kKeys / 16][kRows / kGroupRows];

  template <class Scales>
  __device__ __forceinline__ GradientUnits(const Scales& scales, std::uint32_t of_rows, std::uint32_t of_pieces,
                                           int first_key, int piece_keys) {
    float rows[kRows / kGroupRows];
    load_scales(rows, of_rows, 0);
#pragma unroll
    for (int m = 0; m < kKeys / 16; ++m) {
#pragma unroll
      for (int k = 0; k < kRows / kGroupRows; ++k) {
        const std::uint32_t at = of_pieces + scales.offset(k, (first_key + 16 * m) / piece_keys);
        of[m][k] = matmul_scale(rows[k], bits_to_float(load_shared(at)));
      }
    }
  }
  __device__ __forceinline__ float operator()(int m, int, int, int k) const { return of[m][k]; }
};

// Factors that undo the group scales in the matmul of dQ (score gradients and K), for kRows rows from first_row. This
// matmul sums over keys.
template <bool kScaled, int kRows, int kKeys>
struct DqUnits : UnitOne {
  template <class Scales>
  __device__ __forceinline__ DqUnits(const Scales&, int, int) {}
};

template <int kRows, int kKeys>
struct DqUnits<true, kRows, kKeys> {
  float of[kRows / kGroupRows][kKeys / 16];

  template <class Scales>
  __device__ __forceinline__ DqUnits(const Scales& scales, int first_row, int piece_keys) {
    float keys[kKeys / 16];
    load_scales(keys, scales.k, 0);
#pragma unroll
    for (int m = 0; m < kRows / kGroupRows; ++m) {
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        const std::uint32_t at = scales.gradients + scales.offset(first_row / kGroupRows + m, 16 * k / piece_keys);
        of[m][k] = matmul_scale(keys[k], bits_to_float(load_shared(at)));
      }
    }
  }
  __device__ __forceinline__ float operator()(int m, int, int, int k) const { return of[m][k]; }
};

// Scales a warp's probabilities or score gradients, in groups of 16 rows, to the top of fp16's range. Stores the factor
// that undoes the scale of group m at scales + m * stride.
template <int kMt, int kNt>
__device__ __forceinline__ void scale_groups(float (&values)[kMt][kNt][4], std::uint32_t scales, int stride) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
    const RowScale scale = group_scale([&](auto&& take) {
#pragma unroll
      for (int n = 0; n < kNt; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) take(values[m][n][e]);
      }
    });
#pragma unroll
    for (int n = 0; n < kNt; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) values[m][n][e] *= scale.up;
    }
    if (lane_index() == 0) store_shared(scales + static_cast<std::uint32_t>(m * stride), float_to_bits(scale.down));
  }
}

}  // namespace strobe::cuda
