// The tables of `strobe lm memory`.
#pragma once

#include <string>
#include <vector>

#include "cli/lm/memory_rows.h"

namespace strobe::cli {

// Peaks of the forward pass and of the step, counted and predicted: one row per cell. At most 80 columns without
// --recompute and with one batch.
std::string peak_table(const std::vector<MemoryCell>& cells);

// Each peak by category, and the largest tensors of each pass.
std::string memory_details(const std::vector<MemoryCell>& cells);

// Savings and cost of recomputation: peak, activations saved for the backward and time, each relative to `none`.
std::string recompute_table(const std::vector<MemoryCell>& cells);

}  // namespace strobe::cli
