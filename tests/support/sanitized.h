// kSanitized: true in builds with AddressSanitizer or ThreadSanitizer, where long tests use fewer values.
#pragma once

namespace strobe::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace strobe::test
