// Hardware counters of the ladder's rungs: runs NVIDIA's ncu on strobe-lab. `strobe ladder --profile` calls.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::cli {

// A row of kind "profile" for every GPU rung among `rows`, on the case that it ran on. Where it did not run, or ncu is
// not there, not allowed or says nothing, the row's status is "not available", with the reason.
std::vector<Json> profile_rungs(const std::string& lab, const std::vector<Json>& rows);

}  // namespace strobe::cli
