// Random tokens with which the processes of a job authenticate each other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

inline constexpr std::size_t kTokenBytes = 16;  // 128 bits, 32 hexadecimal digits

// Returns `bytes` random bytes from the kernel as hexadecimal digits. Throws Error(runtime).
std::string random_hex(std::size_t bytes = kTokenBytes);

// Compares in a time that depends only on the lengths.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace strobe
