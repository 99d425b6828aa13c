// Tests tables: alignment by characters without trailing blanks, Markdown and CSV.
#include "results/table.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe {
namespace {

TEST(Table, PadsByCharacters) {
  Table table{.columns = {left("name"), "ms"}, .cells = {{"é", "1.5"}, {"longer", "10.25"}, {"none"}}};
  EXPECT_EQ(table.text(), "name       ms\né         1.5\nlonger  10.25\nnone\n");
  table.cells.push_back({"a", "b", "c"});
  EXPECT_THROW(table.text(), Error);
}

TEST(Table, IsMarkdownAndCsvWithEscapedText) {
  const Table table{.columns = {left("name"), "ms"}, .cells = {{"a|b, c", "1.5"}, {"=x"}}};
  const std::size_t bold[] = {0};
  EXPECT_EQ(table.markdown(bold), "| name | ms |\n| --- | ---: |\n| a\\|b, c | **1.5** |\n| =x |  |\n");
  EXPECT_EQ(table.csv(), "name,ms\n\"a|b, c\",1.5\n\"'=x\",\n");
}

}  // namespace
}  // namespace strobe
