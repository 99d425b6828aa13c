// Reads files of result rows. A file is a sequence of rows (JSON objects), arrays of rows, and documents: objects with
// a list "rows" and an "environment" that all rows share. Only one row or document is in memory at a time. Rows of the
// old form (schema.h) are converted.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace strobe {

using TakeRow = std::function<void(const Json& row)>;

// Calls `take` for each row in order. Throws Error(invalid_argument), "FILE, line N: row N: why", for invalid JSON,
// for text without rows, and for an Error that `take` throws. Rows before the error have been passed to `take`. `name`
// is the FILE of error messages.
void each_row(std::string_view text, const std::string& name, const TakeRow& take);

// Reads a regular file or /dev/stdin, at most 1 GiB. Throws as each_row does, or if the file cannot be read.
void each_row_of_file(const std::string& path, const TakeRow& take);

}  // namespace strobe
