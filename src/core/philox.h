// Philox4x32-10 (Salmon et al., 2011), and the dropout mask made from it.
//
// One call gives 16 random bits to each of 8 scores. The scores of a (b, hq) plane are split into squares of 16 rows x
// 16 keys. A square takes 32 calls (r, c), with r < 8 and c < 4. Call (r, c) gives the bits of rows r and r + 8 at
// keys 2c, 2c + 1, 2c + 8 and 2c + 9. These are the scores that one lane of an m16n8 accumulator fragment holds, so
// each lane draws its own random bits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace strobe {

inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr std::uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr std::uint32_t kPhiloxW1 = 0xBB67AE85u;

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * counter[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
  return counter;
}

// Returns t * 2^16 for t = min(round(p * 2^16), 2^16 - 1). A score is dropped if its dropout_word() is below this.
inline std::uint32_t dropout_threshold(float p) {
  return static_cast<std::uint32_t>(std::min(std::lround(static_cast<double>(p) * 0x1p16), 0xffffl)) << 16;
}

// Returns 2^16 / (2^16 - t), the factor of a kept probability.
inline double dropout_scale(std::uint32_t threshold) { return 0x1p32 / (0x1p32 - threshold); }

// Returns the random bits of score (i, j) in the upper half of a word. The lower half is arbitrary.
inline std::uint32_t dropout_word(std::uint64_t seed, std::int64_t b, std::int64_t hq, std::int64_t i, std::int64_t j) {
  const auto row = static_cast<std::uint32_t>(i), key = static_cast<std::uint32_t>(j);
  const std::uint32_t word = philox({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(hq),
                                     row / 16 * 8 + row % 8, key / 16 * 4 + key % 8 / 2},
                                    seed)[row / 8 % 2 + key / 8 % 2 * 2];
  return key % 2 == 0 ? word << 16 : word;
}

inline bool dropout_keeps(std::uint64_t seed, std::uint32_t threshold, std::int64_t b, std::int64_t hq, std::int64_t i,
                          std::int64_t j) {
  return dropout_word(seed, b, hq, i, j) >= threshold;
}

}  // namespace strobe
