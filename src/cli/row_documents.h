// What people see of a file of rows: FILE.md with tables, and charts as SVG beside it. `strobe ladder`, `strobe
// comm` and `strobe plan` write them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/figure.h"
#include "report/named_table.h"

namespace strobe::cli {

struct Chart {
  std::string suffix;  // "-all-reduce": FILE-all-reduce.svg
  report::Figure figure;
};

std::string document_beside(const std::string& rows_file);  // "out/comm.jsonl": out/comm.md

// Removes the document of this title, and the charts that it shows: before the file that they are of changes. Another
// document stays. Throws Error(runtime) where the disk refuses.
void remove_documents(const std::string& rows_file, const std::string& title);

// Their names, the document's last. Charts that an earlier document of this title shows and this one does not are
// removed: they would be taken for this one's. Throws Error where the disk refuses.
std::vector<std::string> write_documents(const std::string& rows_file, const std::string& title,
                                         std::span<const Chart> charts, std::span<const report::NamedTable> tables);

}  // namespace strobe::cli
