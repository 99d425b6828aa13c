// CRC-32 (IEEE 802.3, as in zlib, so that any language can check it): finds every flipped bit and every burst up to 32.
#pragma once

#include <cstdint>
#include <string_view>

namespace strobe {

// Of `before`, a checksum of what came earlier, and these bytes behind it.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

}  // namespace strobe
