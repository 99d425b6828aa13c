// Floating-point modes that a caller may have set. Tests check that Strobe computes in the default mode regardless.
#pragma once

#include <vector>

#include "device/host/float_mode.h"

namespace strobe::test {

// Returns three modes: flush-to-zero, rounding upward, and both.
inline std::vector<FloatControl> foreign_modes() {
  std::vector<FloatControl> modes(3, kDefaultFloatControl);
#if defined(__x86_64__)
  constexpr std::uint32_t flush = 1u << 15 | 1u << 6, upward = 2u << 13;
  modes[0].mxcsr |= flush;
  modes[1].mxcsr |= upward;
  modes[2].mxcsr |= flush | upward;
#else
  constexpr std::uint64_t flush = 1u << 24, upward = 1u << 22;
  modes[0].fpcr |= flush;
  modes[1].fpcr |= upward;
  modes[2].fpcr |= flush | upward;
#endif
  return modes;
}

// Sets the calling thread's mode until the end of the scope, then the default mode.
class ForeignMode {
 public:
  explicit ForeignMode(FloatControl mode) { set_float_control(mode); }
  ~ForeignMode() { set_float_control(kDefaultFloatControl); }
  ForeignMode(const ForeignMode&) = delete;
  ForeignMode& operator=(const ForeignMode&) = delete;
};

}  // namespace strobe::test
