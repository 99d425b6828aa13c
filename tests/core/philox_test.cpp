// Compares Philox4x32-10 with the known answers published with Random123. Also tests the dropout mask: the bits of each
// score, the share of dropped scores, and the absence of patterns.
#include "core/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

namespace strobe {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822u),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, DropoutUsesSeedAndPosition) {
  const std::uint64_t seed = 0x0123456789abcdefu;
  // Row 59 = 3 * 16 + 8 + 3: square 3, second group of 8 rows, row 3 of the group. Key 38 = 2 * 16 + 6: square 2, first
  // group of 8 keys, first key of pair 3. Word 1 of the call has the bits of this row and pair. Its lower half has
  // those of the first key of the pair.
  const std::uint32_t word = dropout_word(seed, 1, 2, 59, 38);
  EXPECT_EQ(word, philox({1, 2, 3 * 8 + 3, 2 * 4 + 3}, seed)[1] << 16);
  EXPECT_TRUE(dropout_keeps(seed, word, 1, 2, 59, 38));
  EXPECT_FALSE(dropout_keeps(seed, word + 1, 1, 2, 59, 38));
}

// 32 calls give the bits of a square of 16 x 16 scores. No two of the 256 scores may use the same 16 bits of the same
// call.
TEST(Philox, DropoutUsesEveryBitOnce) {
  std::map<std::array<std::uint32_t, 3>, int> uses;  // row index and key index of the call, and 16 bits of its words
  for (int i = 32; i < 48; ++i) {
    for (int j = 16; j < 32; ++j) {
      const auto row = static_cast<std::uint32_t>(16 + i % 8), key = static_cast<std::uint32_t>(4 + j % 8 / 2);
      const Words words = philox({0, 0, row, key}, 9);
      const std::uint32_t bits = dropout_word(9, 0, 0, i, j) >> 16;
      for (std::uint32_t w = 0; w < 4; ++w) {
        if ((words[w] & 0xffff) == bits) ++uses[{row, key, 2 * w}];
        if (words[w] >> 16 == bits) ++uses[{row, key, 2 * w + 1}];
      }
    }
  }
  EXPECT_EQ(uses.size(), 256u);
  for (const auto& [half, count] : uses) EXPECT_EQ(count, 1);
}

TEST(Philox, DropoutThresholdIsAMultipleOf2To16) {
  EXPECT_EQ(dropout_threshold(0.0f), 0u);
  EXPECT_EQ(dropout_threshold(0x1p-18f), 0u);  // rounds to 0
  EXPECT_EQ(dropout_threshold(0x1p-17f), 0x10000u);
  EXPECT_EQ(dropout_threshold(0.5f), 0x80000000u);
  EXPECT_EQ(dropout_threshold(0x1.fffffep-1f), 0xffff0000u);  // the largest p below 1
  EXPECT_EQ(dropout_scale(0x80000000u), 2);
  EXPECT_EQ(dropout_scale(0xffff0000u), 65536);
}

// The fraction of dropped scores among 2^20 must be within 5 standard deviations of p; p = 0 drops none.
TEST(Philox, DropsItsShare) {
  for (const float p : {0.0f, 0.1f, 0.5f, 0.9f}) {
    constexpr int kSide = 1024;
    int dropped = 0;
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) dropped += !dropout_keeps(7, dropout_threshold(p), 0, 0, i, j);
    }
    const double count = double{kSide} * kSide;
    EXPECT_NEAR(dropped / count, p, 5 * std::sqrt(p * (1 - p) / count)) << "p = " << p;
  }
}

// Counts, over 64 seeds, the kept scores of each row and of each key, and the pairs of kept scores at a given distance.
// Every fraction must be within 5.5 standard deviations of its expected value.
TEST(Philox, MaskHasNoPattern) {
  constexpr int kSide = 64, kSeeds = 64;
  constexpr float kDrop = 0.25f;
  const std::uint32_t threshold = dropout_threshold(kDrop);
  std::vector<int> rows(kSide), keys(kSide);
  // distances within a call (1 key, 8 keys, 8 rows), to other calls and to other squares
  const std::array<std::array<int, 2>, 8> distances{{{0, 1}, {0, 2}, {0, 8}, {1, 0}, {8, 0}, {8, 8}, {16, 0}, {0, 16}}};
  std::array<int, 8> both{}, tries{};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto kept = [&](int i, int j) { return dropout_keeps(seed, threshold, 1, 3, i, j); };
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) {
        if (!kept(i, j)) continue;
        ++rows[static_cast<std::size_t>(i)], ++keys[static_cast<std::size_t>(j)];
      }
    }
    for (std::size_t d = 0; d < distances.size(); ++d) {
      for (int i = 0; i + distances[d][0] < kSide; ++i) {
        for (int j = 0; j + distances[d][1] < kSide; ++j) {
          ++tries[d];
          both[d] += kept(i, j) && kept(i + distances[d][0], j + distances[d][1]);
        }
      }
    }
  }
  const auto near = [](int found, double count, double share) {
    return std::abs(found - count * share) <= 5.5 * std::sqrt(count * share * (1 - share));
  };
  for (const int found : rows) EXPECT_PRED3(near, found, kSide * kSeeds, 1 - kDrop);
  for (const int found : keys) EXPECT_PRED3(near, found, kSide * kSeeds, 1 - kDrop);
  for (std::size_t d = 0; d < distances.size(); ++d) {
    EXPECT_PRED3(near, both[d], tries[d], (1 - kDrop) * (1 - kDrop)) << distances[d][0] << ", " << distances[d][1];
  }
}

}  // namespace
}  // namespace strobe
