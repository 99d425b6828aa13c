// Tests core/text_table: alignment by characters, no trailing blanks.
#include "core/text_table.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/table_width.h"
#include "strobe/error.h"

namespace strobe {
namespace {

TEST(TextTable, PadsByCharacters) {
  TextTable table;
  table.add_column("name", TextTable::Align::left);
  table.add_column("ms");
  table.add_row({"é", "1.5"});
  table.add_row({"longer", "10.25"});
  table.add_row({"none"});
  EXPECT_EQ(table.text(), "name       ms\né         1.5\nlonger  10.25\nnone\n");
  EXPECT_THROW(table.add_row({"a", "b", "c"}), Error);
}

TEST(TextTable, AWideTableContinuesBelowWithItsFirstColumn) {
  TextTable table;
  table.add_column("name", TextTable::Align::left);
  for (const char* title : {"forward", "backward", "total"}) table.add_column(title);
  table.add_row({"flash2", "1", "2", "3"});
  const std::string whole = table.text();
  limit_table_width(25);
  const std::string limited = table.text();
  limit_table_width(SIZE_MAX);
  EXPECT_EQ(whole, "name    forward  backward  total\nflash2        1         2      3\n");
  EXPECT_EQ(limited, "name    forward  backward\nflash2        1         2\n\nname    total\nflash2      3\n");
  EXPECT_EQ(table.text(), whole);
}

TEST(TextTable, ALastColumnOfTextIsWrapped) {
  TextTable table;
  table.add_column("name", TextTable::Align::left);
  table.add_column("note", TextTable::Align::left);
  table.add_row({"flash2", "twelve chars and twelve more and an end"});
  limit_table_width(32);
  const std::string limited = table.text();
  limit_table_width(SIZE_MAX);
  EXPECT_EQ(limited, "name    note\nflash2  twelve chars and twelve\n        more and an end\n");
}

}  // namespace
}  // namespace strobe
