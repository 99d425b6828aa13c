// Markdown tables for compare and report.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace strobe::report {

// Returns a Markdown table with all cells escaped. The first `text_columns` columns are left-aligned, the others
// right-aligned. `bold_ends` has the indices of rows whose last cell is bold.
std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                           std::size_t text_columns, std::span<const std::size_t> bold_ends = {});

}  // namespace strobe::report
