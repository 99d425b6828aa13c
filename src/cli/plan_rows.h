// Result files that a plan takes figures from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "lm/plan/machine.h"
#include "report/each_row.h"
#include "report/ranges.h"

namespace strobe::cli {

// Gives `take` each row of the files of `strobe comm` (rows) and of `strobe lm bench` (one object that has them). What
// it throws becomes Error(invalid_argument) with file, line and row.
void each_result(const std::string& path, const report::TakeRow& take);

// Throws Error(invalid_argument) if the row's figure is not a number in the range.
double figure_in(const Json& row, const char* key, const report::Range& range);

bool says(const Json& row, const char* key, std::string_view value);  // an object that says so

// The median of "forward", "whole" and so on of a row of `strobe lm bench`; none where it was not timed.
std::optional<double> seconds_of(const Json& row, const char* phase);

bool is_collective(const Json& row);

// Of a row of `strobe comm` with times of an operation that a plan has; none of others.
std::optional<lm::LinkSample> link_sample(const Json& row);

// Those of a file of so many ranks, or of the most that there are. Throws Error(invalid_argument) where there are none,
// or of more than one engine and memory.
std::vector<lm::LinkSample> link_samples(const std::string& path, std::optional<std::int64_t> ranks);

}  // namespace strobe::cli
