// Formats rows for people: the table and the notes that `strobe bench` prints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/row.h"

namespace strobe::bench {

// One line per row; medians. Ratios are against the first torch peer that ran, else the first row that ran. Above 1
// means faster.
std::string rows_table(std::span<const Row> rows, const Ceilings& ceilings);

// Notes for the reader: rows without times, intervals that were not reached.
std::vector<std::string> notes_on(std::span<const Row> rows, const StoppingRule& rule);

}  // namespace strobe::bench
