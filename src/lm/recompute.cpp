#include "lm/recompute.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

constexpr std::array<const char*, 3> kNames{"none", "attention", "block"};  // in the order of Recompute

}  // namespace

std::vector<std::string> recompute_names() { return {kNames.begin(), kNames.end()}; }

const char* name_of(Recompute recompute) { return kNames[static_cast<std::size_t>(recompute)]; }

Recompute recompute_of(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    fail(ErrorCode::invalid_argument, "recompute {}: valid: {}", printable_value(name), fmt::join(kNames, ", "));
  }
  return static_cast<Recompute>(found - kNames.begin());
}

}  // namespace strobe::lm
