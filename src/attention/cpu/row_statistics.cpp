// How LSE is split, and when it must be computed anew.
#include "attention/cpu/row_statistics.h"

#include <algorithm>
#include <cmath>

namespace strobe::cpu {

void split_lse(double lse, double excess, double typical, float& high, float& low) {
  const double exact = std::min(lse * kLog2e64, 1e30);
  int exponent = 8;
  if (!(std::abs(exact) < 128)) std::frexp(std::abs(exact) + 128, &exponent);
  const double grain = exponent == 8 ? 0x1p-16 : std::ldexp(1.0, exponent - 24);
  high = static_cast<float>(std::nearbyint(exact / grain) * grain);
  low = static_cast<float>(exact - high + excess * (exact + typical));
}

bool has_far_lse(const RowStatistics& statistics, int rows) {
  return std::any_of(statistics.lse, statistics.lse + rows,
                     [](double lse) { return std::isfinite(lse) && std::abs(lse) * kLog2e64 >= kNearExponent; });
}

bool lse_rounding_shows(DType dtype, const Lanes& lanes, const double* lse, const double* typical) {
  constexpr std::int32_t kFewKeys = 128;
  const bool fp32 = dtype == DType::fp32;
  if (fp32 && lanes.hi_max - lanes.lo_min <= kFewKeys) return true;
  for (int lane = 0; lane < lanes.count; ++lane) {
    const double size = std::abs(lse[lane]), excess = lse[lane] + typical[lane] / kLog2e64;
    if (size < 4 || !std::isfinite(size)) continue;
    if (size >= 16 || excess > 2 || (fp32 && excess < -2)) return true;
  }
  return false;
}

}  // namespace strobe::cpu
