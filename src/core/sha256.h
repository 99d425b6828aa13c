// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104). Ranks use them to prove that they know the job's token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace strobe {

using Sha256Digest = std::array<std::uint8_t, 32>;

Sha256Digest sha256(std::string_view text);
Sha256Digest hmac_sha256(std::string_view key, std::string_view text);

std::string hex_of(const Sha256Digest& digest);  // 64 lower-case digits

}  // namespace strobe
