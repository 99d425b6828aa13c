// Compares Philox4x32-10 with the known answers published with Random123.
#include "core/philox.h"

#include <gtest/gtest.h>

#include <cmath>

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
  const std::uint32_t word = philox({1, 2, 3, 4}, seed)[0];
  EXPECT_TRUE(dropout_keeps(seed, word, 1, 2, 3, 4));
  EXPECT_FALSE(dropout_keeps(seed, word + 1, 1, 2, 3, 4));
}

TEST(Philox, DropoutThreshold) {
  EXPECT_EQ(dropout_threshold(0.0f), 0u);
  EXPECT_EQ(dropout_threshold(0.5f), 0x80000000u);
  EXPECT_EQ(dropout_threshold(0x1.fffffep-1f), 0xffffff00u);  // the largest p below 1
}

// With 2^20 probabilities, the dropped share must be within 5 standard deviations of p; p = 0 drops none.
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

}  // namespace
}  // namespace strobe
