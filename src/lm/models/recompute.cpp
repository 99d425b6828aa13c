#include "lm/models/recompute.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

constexpr std::array<const char*, 3> kRecomputeNames{"none", "attention", "block"};  // in the order of Recompute

}  // namespace

std::vector<std::string> recompute_names() { return {kRecomputeNames.begin(), kRecomputeNames.end()}; }

const char* name_of(Recompute recompute) { return kRecomputeNames[static_cast<std::size_t>(recompute)]; }

Recompute recompute_of(std::string_view name) {
  const auto found = std::find(kRecomputeNames.begin(), kRecomputeNames.end(), name);
  if (found == kRecomputeNames.end()) {
    fail(ErrorCode::invalid_argument, "recompute {}: valid: {}", printable_value(name),
         fmt::join(kRecomputeNames, ", "));
  }
  return static_cast<Recompute>(found - kRecomputeNames.begin());
}

}  // namespace strobe::lm
