// Limits the width of all text tables (results/table.h) to that of the terminal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

inline std::size_t table_width_limit = SIZE_MAX;  // columns; SIZE_MAX: no limit

// Sets the limit. The columns of a wider table that do not fit are printed below, with the first column repeated. A
// last column of text is wrapped.
inline void limit_table_width(std::size_t columns) { table_width_limit = columns; }

}  // namespace strobe
