// Hardware counters of the ladder's rungs: runs NVIDIA's ncu on strobe-lab. `strobe ladder --profile` calls.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::cli {

// Gives `take` a row of kind "profile", when it is known, for every GPU rung among `rows`, on the case that it ran on.
// Where it did not run, or ncu is not there, not allowed or says nothing, the row's status is "not available", with the
// reason.
void profile_rungs(const std::string& lab, const std::vector<Json>& rows, const std::function<void(Json)>& take);

}  // namespace strobe::cli
