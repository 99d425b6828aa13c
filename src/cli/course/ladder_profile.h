// Hardware counters of the ladder's rungs: runs NVIDIA's ncu on strobe-lab. `strobe ladder --profile` calls.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::cli {

// Calls `take` with a row of kind "profile" for every GPU rung in `rows`, as soon as ncu has run on its case. If the
// rung did not run, or ncu is missing, not allowed or prints no counters, the status is "not available", with the
// reason.
void profile_rungs(const std::string& lab, const std::vector<Json>& rows, const std::function<void(Json)>& take);

}  // namespace strobe::cli
