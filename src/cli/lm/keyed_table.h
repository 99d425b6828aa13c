// Text of a table whose first columns identify its rows.
#pragma once

#include <cstddef>
#include <string>

#include "results/table.h"

namespace strobe::cli {

// Returns the table as text. Of the first `identity` columns, those that are equal in all rows are in a line above the
// table. The others become one column, so that a table wider than the terminal, which continues below, repeats them.
std::string keyed_text(const Table& table, std::size_t identity);

}  // namespace strobe::cli
