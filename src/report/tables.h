// Formats the table of all cells as Markdown, CSV and HTML, with the same columns and values. The Markdown report
// begins with the tables of problem_tables.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/figure.h"
#include "results/table.h"

namespace strobe::report {

Table cell_table(std::span<const Cell> cells);  // one row per cell, in cell order; "" for a missing value

// A table without the columns that have one value in all rows; these are listed in a sentence. The first column and a
// table of one row stay as they are.
struct FoldedTable {
  std::string constants;  // "The same in all rows: dtype fp32, heads 8."
  Table table;
};
FoldedTable fold_constants(const Table& table);

std::string table_html(const Table& table, std::span<const Cell> cells);  // rows carry data-causal, data-dtype
std::string report_markdown(const Table& table, std::span<const Cell> cells, std::span<const Figure> figures);

}  // namespace strobe::report
