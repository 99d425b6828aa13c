// Kernel launches of the ladder's rungs, as tables. `strobe ladder` calls.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/named_table.h"

namespace strobe::cli {

// One table per case: launches of a run, kernel time per launch, and shared memory per block, for every rung that
// reports its launches. Cases without such a rung have no table.
std::vector<report::NamedTable> launch_tables(std::span<const Json> rows);

}  // namespace strobe::cli
