// Markdown tables, for compare and report.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace strobe::report {

// All cells are plain text and are escaped. The first `text_columns` are aligned to the left, the others to the right.
// The last cell of each row in `bold_ends`, sorted or not, is bold.
std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                           std::size_t text_columns, std::span<const std::size_t> bold_ends = {});

}  // namespace strobe::report
