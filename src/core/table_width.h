// Limits the width of all text tables (results/table.h) to that of the terminal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

inline std::size_t table_width_limit = SIZE_MAX;  // columns; SIZE_MAX: no limit

// A wider table is continued below with its first column repeated; a last column of text is wrapped. By default there
// is no limit.
inline void limit_table_width(std::size_t columns) { table_width_limit = columns; }

}  // namespace strobe
