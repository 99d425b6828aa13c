// Tests core/json_lines: complete lines, an incomplete last line, and files in other formats.
#include "core/json_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "strobe/error.h"

namespace strobe {
namespace {

std::size_t whole_bytes(std::string_view text, std::vector<std::string>* lines = nullptr) {
  return for_each_whole_line(text, "{\"a\":", "x", [&](std::string_view line, int number) {
    if (lines) lines->push_back(std::to_string(number) + std::string(line));
  });
}

TEST(JsonLines, PassesCompleteLinesAndCountsTheirBytes) {
  std::vector<std::string> lines;
  EXPECT_EQ(whole_bytes("{}\n\n{\"a\":1}\ntorn", &lines), 12u);
  EXPECT_EQ(lines, (std::vector<std::string>{"1{}", "2", "3{\"a\":1}"}));
}

TEST(JsonLines, AnIncompleteLastLineMustFollowALineOrBeginLikeOne) {
  for (const char* ours : {"", "{", "{\"a", "{\"a\":", "{\"a\":1}", "{\"a\":{\"b\":"}) {
    EXPECT_EQ(whole_bytes(ours), 0u) << ours;
  }
  EXPECT_EQ(whole_bytes("{}\nanything"), 3u);
  const std::string zeros(100000, '\0');
  for (const std::string& foreign :
       {std::string("my thesis: three months of work"), std::string("{\"b\":1}"), std::string(" "), zeros}) {
    try {
      whole_bytes(foreign);
      ADD_FAILURE() << foreign.substr(0, 40);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()).find("x: is not a file of rows: it begins with "), 0u) << error.what();
    }
  }
}

}  // namespace
}  // namespace strobe
