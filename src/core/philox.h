// Philox4x32-10 (Salmon et al., 2011), a counter-based random number generator. Dropout uses the seed as key, (batch,
// query head, query, key) as counter, and the first word of the output.
#pragma once

#include <array>
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

// Returns p * 2^32. An element is dropped if its random word is below this threshold.
inline std::uint32_t dropout_threshold(float p) { return static_cast<std::uint32_t>(static_cast<double>(p) * 0x1p32); }

inline bool dropout_keeps(std::uint64_t seed, std::uint32_t threshold, std::int64_t b, std::int64_t hq, std::int64_t i,
                          std::int64_t j) {
  return philox({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(hq), static_cast<std::uint32_t>(i),
                 static_cast<std::uint32_t>(j)},
                seed)[0] >= threshold;
}

}  // namespace strobe
