// Units of bytes for messages and tables.
#pragma once

namespace strobe {

inline constexpr double kMiB = 1 << 20;
inline constexpr double kGiB = 1024.0 * 1024 * 1024;

}  // namespace strobe
