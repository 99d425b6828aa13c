// CRC-32 (IEEE 802.3, as in zlib, so that any language can check it): finds every flipped bit and every burst up to 32.
#pragma once

#include <cstdint>
#include <string_view>

namespace strobe {

// Checksum of these bytes, appended to those with the checksum `before`.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

// Checksum of two chunks in sequence, from the checksums of both and the size of the second. Threads can each take a
// chunk of a file.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace strobe
