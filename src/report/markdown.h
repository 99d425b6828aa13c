// Markdown tables, for compare and report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe::report {

// Text that cannot become a column, a line or a tag of its own.
std::string markdown_text(std::string_view text);

// The first `text_columns` are set to the left, the others to the right.
std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                           std::size_t text_columns);

}  // namespace strobe::report
