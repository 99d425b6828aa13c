// True in builds with AddressSanitizer or ThreadSanitizer. Tests that are long for the sake of values, not memory
// errors or races, are shorter there.
#pragma once

namespace strobe::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace strobe::test
