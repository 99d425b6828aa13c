// The JSON file and the picture of `strobe lm memory`.
#pragma once

#include <string>
#include <vector>

#include "cli/lm/memory_rows.h"
#include "report/memory_map.h"

namespace strobe::cli {

// One row for each pass with every allocation, every tensor and every moment; and the table of peaks, one row per cell.
std::string memory_document(const std::vector<MemoryCell>& cells);

report::MemoryMap memory_map(const MemoryRow& row);  // the row must have figures

}  // namespace strobe::cli
