// Converts rows of `strobe lm bench`, `strobe comm` and `strobe ladder` to the form of `strobe bench`, which report and
// compare read.
#pragma once

#include <optional>

#include "core/json.h"

namespace strobe::report {

// Returns nullopt if the row is of another command, or is no measurement of a time, such as a row of counters. Throws
// Error(invalid_argument) if the row lacks a key. result.cpp checks the values.
std::optional<Json> row_as_of_bench(const Json& row);

}  // namespace strobe::report
