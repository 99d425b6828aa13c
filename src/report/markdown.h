// Markdown tables for compare and report.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace strobe::report {

// Escapes all cells as plain text. The first `text_columns` are left-aligned, the others right-aligned. The last cell
// of each row in `bold_ends` (in any order) is bold.
std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                           std::size_t text_columns, std::span<const std::size_t> bold_ends = {});

}  // namespace strobe::report
