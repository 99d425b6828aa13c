// Files of rows, taken apart: JSON objects and lists of such, any number one after the other. Readers of results and of
// the ladder's rows call.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace strobe::report {

using TakeRow = std::function<void(const Json& row)>;

// Gives `take` each row in turn. What it throws, and text that is no JSON, becomes Error(invalid_argument), "FILE, line
// N: what is wrong"; so does a text without any row. `name` stands for the file in errors.
void each_row(std::string_view text, const std::string& name, const TakeRow& take);

// The same of a file; throws likewise where there is no plain one that can be read.
void each_row_of_file(const std::string& path, const TakeRow& take);

}  // namespace strobe::report
