// Runs strobe-lab, the program of the teaching ladder, whose rungs are kernel variants: finds the program, tabulates
// the launches of its rows, and reads counters with NVIDIA's ncu.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "results/table.h"

namespace strobe::cli {

// Returns the path of strobe-lab, in the folder of this program. Throws Error(unsupported) if it was not built.
std::string lab_program();

// Returns one table per case: launches per run, kernel time per launch and shared memory per block, for every rung that
// reports its launches. Cases without such a rung have no table.
std::vector<Table> launch_tables(std::span<const Json> rows);

// Calls `take` with a row of kind "profile" for every GPU rung in `rows`, as soon as ncu has run on its case. If the
// rung did not run, or ncu is missing, not permitted or prints no counters, the row has status "not available" and a
// reason.
void profile_rungs(const std::string& lab, const std::vector<Json>& rows, const std::function<void(Json)>& take);

}  // namespace strobe::cli
