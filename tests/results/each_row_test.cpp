// Tests results/each_row, which calls a function for each row of a stream. Errors contain the line.
#include "results/each_row.h"

#include <gtest/gtest.h>

#include "results/row_splitter.h"
#include "strobe/error.h"

namespace strobe {
namespace {

std::string rows_of(std::string_view text) {
  std::string all;
  each_row(text, "f", [&](const Json& row) { all += row.dump() + ";"; });
  return all;
}

std::string row_refusal(std::string_view text) {
  try {
    rows_of(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(EachRow, ValuesAndListItemsAreRows) {
  EXPECT_EQ(rows_of("{\"a\": 1}\n[2, [3],\n \"]x\\\"\"]\n\n4{\"b\":\"}\"} true[]\"s\" [ ]"),
            R"({"a":1};2;[3];"]x\"";4;{"b":"}"};true;"s";)");
}

TEST(EachRow, BlocksMayEndAnywhere) {
  const std::string text = "[{\"a\": \"\\\\\\\"]}\"}, 12.5 ,null]{\"é\":[1,{}]}";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    std::string all;
    RowSplitter splitter([&](const RowSplitter::Row& row) { all += Json::parse(row.text).dump() + ";"; });
    splitter.add(std::string_view(text).substr(0, cut));
    splitter.add(std::string_view(text).substr(cut));
    splitter.finish();
    EXPECT_EQ(all, R"({"a":"\\\"]}"};12.5;null;{"é":[1,{}]};)") << cut;
  }
}

TEST(EachRow, ErrorsContainTheLine) {
  EXPECT_EQ(row_refusal("{}\n\n{\"a\":\n  x}"), "f, line 4: not JSON: not a number at byte 8 of 10");
  EXPECT_EQ(row_refusal("{}\n{\"a\": "), "f, line 2: not JSON: end of text where a value was expected at byte 6 of 6");
  EXPECT_EQ(row_refusal("[1\n,2"), "f, line 2, item 2 of the list: not JSON: no closing bracket of the list");
  EXPECT_EQ(row_refusal("[1\n 2]"), "f, line 2, item 1 of the list: not JSON: no comma after an item of the list");
  EXPECT_EQ(row_refusal("[1,]"), "f, line 1, item 2 of the list: not JSON: not a number at byte 0 of 1");
  EXPECT_EQ(row_refusal("1,2"), "f, line 1: not JSON: not a number at byte 0 of 2");
  EXPECT_EQ(row_refusal("]"), "f, line 1: not JSON: not a number at byte 0 of 1");
  EXPECT_EQ(row_refusal("{\"a\": \"\xff\"}"), "f, line 1: not JSON: a byte that is not UTF-8 at byte 7 of 10");
  EXPECT_EQ(row_refusal(" \n "), "f: contains no result");
  EXPECT_EQ(row_refusal(R"({"environment": {}, "rows": []})"), "f: contains no result");
}

TEST(EachRow, EachRowIsLimitedButNotTheFile) {
  std::size_t rows = 0;
  RowSplitter splitter([&](const RowSplitter::Row&) { ++rows; });
  const std::string block = "\"" + std::string(1 << 20, 'x') + "\" ";
  for (int i = 0; i < 70; ++i) splitter.add(block);  // 70 MiB in all; the limit applies to each document
  EXPECT_EQ(rows, 70u);
  splitter.add("\"");
  const std::string part(1 << 20, 'x');
  EXPECT_THROW(for (int i = 0; i < 65; ++i) splitter.add(part), Error);
}

}  // namespace
}  // namespace strobe
