// Tests the dropout masks of the Hopper kernels without a GPU: compiles the device code of device/dropout.cuh for the
// host, emulates the 32 lanes of a warp and the instruction movmatrix, and compares with core/philox.h.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "core/philox.h"

#define __device__
#define __forceinline__ inline
#include "attention/cuda/device/dropout.cuh"

namespace strobe::cuda {
namespace {

struct RoundKeys {
  std::uint32_t keys[10][2];

  explicit RoundKeys(std::uint64_t seed) {
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (auto& pair : keys) {
      pair[0] = k0, pair[1] = k1;
      k0 += kPhiloxW0, k1 += kPhiloxW1;
    }
  }
};

constexpr std::uint64_t kSeed = 0x0123456789abcdef;

TEST(HopperDropout, PairsCompareExactly) {
  for (const std::uint32_t t : {0u, 1u, 2u, 0x1999u, 0x7fffu, 0x8000u, 0x8001u, 0xfffeu, 0xffffu}) {
    const KeepsPair keeps(t << 16);
    for (std::uint32_t half = 0; half < 1u << 16; ++half) {
      const std::uint32_t other = half * 40503u & 0xffffu;
      const std::uint32_t expected = (half >= t ? 0x8000u : 0) | (other >= t ? 0x80000000u : 0);
      ASSERT_EQ(keeps.of(half | other << 16), expected) << "threshold " << t << ", word " << (half | other << 16);
    }
  }
}

using Matrix = std::array<std::uint32_t, 32>;  // one register of each lane

// movmatrix.trans: lane l has the elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
Matrix transposed(const Matrix& matrix) {
  const auto element = [&](int row, int column) {
    return matrix[static_cast<std::size_t>(row * 4 + column / 2)] >> (column % 2 * 16) & 0xffffu;
  };
  Matrix result{};
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, column = lane % 4 * 2;
    result[static_cast<std::size_t>(lane)] = element(column, row) | element(column + 1, row) << 16;
  }
  return result;
}

// The scores of one warp of the backward: [16 keys][16 kSquares rows] from (first_key, first_row).
template <int kSquares>
void expect_transposed_mask(int b, int head, int first_row, int first_key, float p) {
  const RoundKeys keys(kSeed);
  const std::uint32_t threshold = dropout_threshold(p);
  Matrix kept{};
  for (int lane = 0; lane < 32; ++lane) {
    kept[static_cast<std::size_t>(lane)] = kept_blocks<Along::rows, kSquares>(
        Philox(keys.keys, b, head), KeepsPair(threshold), first_row + lane / 4, first_key + lane % 4 * 2);
  }
  kept = transposed(kept);
  for (int lane = 0; lane < 32; ++lane) {
    for (int n = 0; n < 4 * kSquares; ++n) {  // accumulator pairs of a thread, as in sm90/device/wgmma.cuh
      for (int e = 0; e < 2; ++e) {
        const int key = first_key + lane / 4 + n % 2 * 8, row = first_row + n / 2 * 8 + lane % 4 * 2 + e;
        const bool keeps = kept_to_sign<kSquares>(kept[static_cast<std::size_t>(lane)], n, e == 1) >> 31 != 0;
        ASSERT_EQ(keeps, dropout_keeps(kSeed, threshold, b, head, row, key)) << "row " << row << ", key " << key;
      }
    }
  }
}

TEST(HopperDropout, TransposedMaskEqualsTheSpecification) {
  for (const float p : {0.001f, 0.1f, 0.5f, 0.75f, 1.0f}) {
    for (const int row : {0, 64, 1040}) {
      for (const int key : {0, 16, 4080}) {
        expect_transposed_mask<2>(1, 3, row, key, p);
        expect_transposed_mask<4>(2, 70, row, key, p);
      }
    }
  }
}

// The scores of one warp of the forward at head dimension 256: [16 rows][16 kSquares keys].
template <int kSquares>
void expect_packed_mask(int b, int head, int first_row, int first_key, float p) {
  const RoundKeys keys(kSeed);
  const std::uint32_t threshold = dropout_threshold(p);
  for (int lane = 0; lane < 32; ++lane) {
    const std::uint32_t kept = kept_blocks<Along::keys, kSquares>(Philox(keys.keys, b, head), KeepsPair(threshold),
                                                                  first_row + lane / 4, first_key + lane % 4 * 2);
    for (int n = 0; n < 4 * kSquares; ++n) {
      const int row = first_row + lane / 4 + n % 2 * 8, key = first_key + n / 2 * 8 + lane % 4 * 2;
      std::uint32_t pair = 0x12345678;
      drop_pair_of_block<kSquares>(pair, kept, n);
      const std::uint32_t expected = (dropout_keeps(kSeed, threshold, b, head, row, key) ? 0x5678u : 0) |
                                     (dropout_keeps(kSeed, threshold, b, head, row, key + 1) ? 0x12340000u : 0);
      ASSERT_EQ(pair, expected) << "row " << row << ", key " << key;
    }
  }
}

TEST(HopperDropout, PackedMaskEqualsTheSpecification) {
  for (const float p : {0.001f, 0.1f, 0.5f, 0.75f, 1.0f}) {
    for (const int row : {0, 1040}) {
      for (const int key : {0, 16, 4080}) {
        expect_packed_mask<1>(1, 3, row, key, p);
        expect_packed_mask<4>(2, 70, row, key, p);
      }
    }
  }
}

}  // namespace
}  // namespace strobe::cuda
