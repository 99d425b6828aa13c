// Floating-point mode of the calling thread: rounding direction, treatment of subnormals, traps. Public functions and
// jobs of the thread pool compute in the IEEE default mode, regardless of the caller's mode. attention.cpp and
// thread_pool.h use it.
#pragma once

#include <cstdint>

namespace strobe {

// The processor's control registers.
struct FloatControl {
#if defined(__x86_64__)
  std::uint32_t mxcsr;
  std::uint16_t x87;
#else
  std::uint64_t fpcr;
#endif
  friend bool operator==(const FloatControl&, const FloatControl&) = default;
};

#if defined(__x86_64__)

// Round to nearest, subnormals kept, no traps; x87: 64-bit mantissa.
inline constexpr FloatControl kDefaultFloatControl{0x1f80, 0x037f};
inline constexpr std::uint32_t kFloatStatusBits = 0x3f;  // exception flags, in the same register as the mode

inline FloatControl float_control() {
  FloatControl control{};
  asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(control.mxcsr), "=m"(control.x87) : : "memory");
  control.mxcsr &= ~kFloatStatusBits;
  return control;
}

inline void set_float_control(FloatControl control) {
  asm volatile("fnclex\n\tldmxcsr %0\n\tfldcw %1" : : "m"(control.mxcsr), "m"(control.x87) : "memory");
}

#elif defined(__aarch64__)

inline constexpr FloatControl kDefaultFloatControl{0};

inline FloatControl float_control() {
  FloatControl control{};
  asm volatile("mrs %0, fpcr" : "=r"(control.fpcr) : : "memory");
  return control;
}

inline void set_float_control(FloatControl control) { asm volatile("msr fpcr, %0" : : "r"(control.fpcr) : "memory"); }

#else
#error "float_mode.h: this processor's floating-point control register is unknown"
#endif

// Sets the IEEE default mode for the scope, then restores the previous mode. Exception flags (such as FE_INEXACT) are
// unspecified afterwards. Costs only reads of the control registers if the mode is already the default.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(float_control()) {
    if (before_ != kDefaultFloatControl) set_float_control(kDefaultFloatControl);
  }
  ~DefaultFloatMode() {
    if (before_ != kDefaultFloatControl) set_float_control(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  FloatControl before_;
};

}  // namespace strobe
