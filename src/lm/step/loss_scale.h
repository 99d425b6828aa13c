// What the loss of an fp16 model is multiplied with, so that small gradients do not become 0: halved where a gradient
// overflowed, doubled after many steps in which none did.
#pragma once

#include <cstdint>

namespace strobe::lm {

struct LossScale {
  double scale = 65536;
  std::int64_t fine_steps = 0;  // since the last change
  std::int64_t skipped = 0;     // steps whose gradient overflowed, in all

  static constexpr std::int64_t kPatience = 2000;
  static constexpr double kLeast = 1, kMost = 0x1p24;

  void fine() {
    if (++fine_steps < kPatience) return;
    fine_steps = 0;
    if (scale < kMost) scale *= 2;
  }
  void overflowed() {
    fine_steps = 0;
    ++skipped;
    if (scale > kLeast) scale /= 2;
  }
  bool operator==(const LossScale&) const = default;
};

}  // namespace strobe::lm
