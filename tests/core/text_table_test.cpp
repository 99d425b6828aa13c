// Tests core/text_table: alignment by characters, no trailing blanks.
#include "core/text_table.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strobe
