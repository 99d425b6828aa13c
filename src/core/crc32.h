// CRC-32 (IEEE 802.3, as in zlib). Detects every single-bit error and every burst of up to 32 bits.
#pragma once

#include <cstdint>
#include <string_view>

namespace strobe {

// Returns the checksum of `bytes` appended to bytes with the checksum `before`.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

// Returns the checksum of two consecutive chunks from the checksums of both and the size of the second. Lets threads
// checksum chunks of a file in parallel.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace strobe
