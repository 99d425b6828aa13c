// CRC-32 (IEEE 802.3, as in zlib). Detects every single-bit error and every burst of up to 32 bits.
#pragma once

#include <cstdint>
#include <string_view>

namespace strobe {

// Returns the checksum of `bytes`. To continue a checksum, pass as `before` the checksum of the preceding bytes.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

// Returns the checksum of two concatenated chunks, given the checksum of each and the size of the second. Threads can
// therefore checksum chunks of a file in parallel.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace strobe
