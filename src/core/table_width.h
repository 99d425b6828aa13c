// Limits the width of all text tables (core/text_table.h) to that of the terminal.
#pragma once

#include <cstddef>

namespace strobe {

// A wider table is continued below with its first column repeated; a last column of text is wrapped. By default there
// is no limit.
void limit_table_width(std::size_t columns);

}  // namespace strobe
