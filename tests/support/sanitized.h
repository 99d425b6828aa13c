// Whether this is a build with AddressSanitizer or ThreadSanitizer: tests whose length shows values, not memory errors
// or races, are shorter there.
#pragma once

namespace strobe::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace strobe::test
