// Reads files of rows: a sequence of JSON objects and of lists of them. Keeps one row in memory. Used by the readers of
// results and of ladder rows.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace strobe::report {

using TakeRow = std::function<void(const Json& row)>;

// Calls `take` for each row in order. An Error that `take` throws, invalid JSON, and text without rows become
// Error(invalid_argument): "FILE, line N: what is wrong". Rows before the error have been passed to `take`. `name` is
// the file's name in errors.
void each_row(std::string_view text, const std::string& name, const TakeRow& take);

// Reads a regular file, or /dev/stdin, of up to 1 GiB. Throws as each_row does, or if the file cannot be read.
void each_row_of_file(const std::string& path, const TakeRow& take);

}  // namespace strobe::report
