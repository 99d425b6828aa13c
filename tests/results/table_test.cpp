// Tests tables: alignment by characters without trailing blanks, folding on a terminal, Markdown and CSV.
#include "results/table.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/table_width.h"
#include "strobe/error.h"

namespace strobe {
namespace {

TEST(Table, PadsByCharacters) {
  Table table{.columns = {left("name"), "ms"}, .cells = {{"é", "1.5"}, {"longer", "10.25"}, {"none"}}};
  EXPECT_EQ(table.text(), "name       ms\né         1.5\nlonger  10.25\nnone\n");
  table.cells.push_back({"a", "b", "c"});
  EXPECT_THROW(table.text(), Error);
}

TEST(Table, AWideTableContinuesBelowWithItsFirstColumn) {
  const Table table{.columns = {left("name"), "forward", "backward", "total"}, .cells = {{"flash2", "1", "2", "3"}}};
  const std::string whole = table.text();
  limit_table_width(25);
  const std::string limited = table.text();
  limit_table_width(SIZE_MAX);
  EXPECT_EQ(whole, "name    forward  backward  total\nflash2        1         2      3\n");
  EXPECT_EQ(limited, "name    forward  backward\nflash2        1         2\n\nname    total\nflash2      3\n");
  EXPECT_EQ(table.text(), whole);
}

TEST(Table, ALastColumnOfTextIsWrapped) {
  const Table table{.columns = {left("name"), left("note")},
                    .cells = {{"flash2", "twelve chars and twelve more and an end"}}};
  limit_table_width(32);
  const std::string limited = table.text();
  limit_table_width(SIZE_MAX);
  EXPECT_EQ(limited, "name    note\nflash2  twelve chars and twelve\n        more and an end\n");
}

TEST(Table, IsMarkdownAndCsvWithEscapedText) {
  const Table table{.columns = {left("name"), "ms"}, .cells = {{"a|b, c", "1.5"}, {"=x"}}};
  const std::size_t bold[] = {0};
  EXPECT_EQ(table.markdown(bold), "| name | ms |\n| --- | ---: |\n| a\\|b, c | **1.5** |\n| =x |  |\n");
  EXPECT_EQ(table.csv(), "name,ms\n\"a|b, c\",1.5\n\"'=x\",\n");
}

}  // namespace
}  // namespace strobe
