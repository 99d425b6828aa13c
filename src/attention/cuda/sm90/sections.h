// Heads whose tiles are worked off together, so that what these share stays in the L2 cache.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::cuda::sm90 {

// Of 50 MB of L2, beside what streams past: what tiles of rows share in a forward, K and V; what tiles of keys share in
// a backward, the sum of dQ, Q and dO.
inline constexpr std::int64_t kForwardSectionBytes = 32 << 20, kBackwardSectionBytes = 24 << 20;

// As many as fit `section_bytes`, cut alike, and up to a quarter fewer where the last section would be less than half
// of the others: its tiles, long ones among them, would begin when most blocks have nothing left to do.
constexpr std::int64_t section_heads(std::int64_t heads, std::int64_t bytes_a_head, std::int64_t section_bytes) {
  if (heads < 1) return 1;
  const std::int64_t most = std::clamp<std::int64_t>(section_bytes / std::max<std::int64_t>(1, bytes_a_head), 1, heads);
  const std::int64_t sections = (heads + most - 1) / most, alike = (heads + sections - 1) / sections;
  for (std::int64_t section = alike; 4 * section >= 3 * alike; --section) {
    const std::int64_t last = heads - (heads - 1) / section * section;
    if (2 * last >= section) return section;
  }
  return alike;
}

}  // namespace strobe::cuda::sm90
