// Tests CRC-32: known values, and combining the checksums of two chunks into that of both.
#include "core/crc32.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace strobe {
namespace {

TEST(Crc32, MatchesZlib) {
  EXPECT_EQ(crc32(""), 0u);
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);  // the check value of the standard
  EXPECT_EQ(crc32("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
}

TEST(Crc32, JoinsChunksAtAnyCut) {
  std::string bytes(100, '\0');
  std::mt19937 random(1);
  for (char& c : bytes) c = static_cast<char>(random());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(crc32(bytes.substr(cut), crc32(bytes.substr(0, cut))), crc32(bytes)) << cut;
    EXPECT_EQ(crc32_joined(crc32(bytes.substr(0, cut)), crc32(bytes.substr(cut)), bytes.size() - cut), crc32(bytes));
  }
}

TEST(Crc32, DetectsEveryFlippedBit) {
  std::string bytes(37, 'x');
  const std::uint32_t whole = crc32(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(crc32(bytes), whole) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace strobe
