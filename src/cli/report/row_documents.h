// Documents next to a file of rows: FILE.md with tables, and charts as SVG. `strobe ladder`, `strobe comm` and `strobe
// plan` write them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report/written_files.h"
#include "core/file_set.h"
#include "report/figure.h"
#include "report/named_table.h"

namespace strobe::cli {

struct Chart {
  std::string suffix;  // "-all-reduce": FILE-all-reduce.svg
  report::Figure figure;
};

std::string document_beside(const std::string& rows_file);  // "out/comm.jsonl": out/comm.md

// Throws Error(invalid_argument) if this program did not write the existing document. Called before measuring.
void check_documents(const std::string& rows_file, const std::string& title);

// Removes the document of this title and the charts that it lists, before the rows that they show change. Keeps
// documents that this program did not write, and changed charts. Throws Error(runtime) if the disk refuses.
void remove_documents(const std::string& rows_file, const std::string& title);

// Writes charts and document as a set and returns their names, the document's last. Removes charts that an earlier
// document of this title lists and this one does not. Throws Error(invalid_argument) if a file that this program did
// not write has one of the names, Error(runtime) if a write fails; the old files then stay.
std::vector<std::string> write_documents(const std::string& rows_file, const std::string& title,
                                         std::span<const Chart> charts, std::span<const report::NamedTable> tables);

// The parts of write_documents, for a set that has further files: before commit(), ...
std::vector<WrittenFile> charts_of_document(const std::string& rows_file, const std::string& title);
std::vector<std::string> add_documents(FileSet& files, const std::string& rows_file, const std::string& title,
                                       std::span<const Chart> charts, std::span<const report::NamedTable> tables);
// ... and after it.
void remove_other_charts(const std::string& rows_file, std::span<const WrittenFile> earlier,
                         std::span<const std::string> written);

}  // namespace strobe::cli
