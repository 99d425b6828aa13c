// What a forward fetches while it computes. Of memory that nobody has touched a core gets but a few bytes a clock, so
// it had better ask early. Called by forward.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/cpu/plan.h"

namespace strobe::cpu {

// While a unit is worked off: where its output goes, and what its thread is likely to pack next. For steps that flow,
// of units that are a single row block, in tensors of one shape whose rows follow each other; else nothing.
std::optional<Soon> soon_wanted(const Problem& problem, const Plan& plan, std::int64_t unit_index);

}  // namespace strobe::cpu
