// Tests report/memory_map: charts of the memory of a training step over time, as SVG and HTML.
#include "report/memory_map.h"

#include <gtest/gtest.h>

namespace strobe::report {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

MemoryMap small_map() {
  return {.title = "a <b>",
          .caption = "c",
          .operations = {"first", "second", "third"},
          .parts = {{"forward", 0}, {"backward", 2}},
          .categories = {"one", "two"},
          .blocks = {{.name = "x", .category = 0, .at = 0, .bytes = 3 << 20, .from = 0, .to = 2},
                     {.name = "y", .category = 1, .at = 3 << 20, .bytes = 1 << 20, .from = 1, .to = 1}},
          .bytes = 4 << 20,
          .peak_at = 1};
}

TEST(MemoryMap, ABlockShowsItsNameBytesAndLifetime) {
  const std::string svg = memory_map_svg(small_map());
  EXPECT_NE(svg.find("<title>x: 3.0 MiB, one; 0 to 2: from first to third</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>y: 1.0 MiB, two; 1 to 1: from second to second</title>"), std::string::npos) << svg;
  EXPECT_EQ(count_of(svg, "<title>"), 2u);
  EXPECT_NE(svg.find("a &lt;b&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(MemoryMap, ThePageHasEveryMapAndNoExternalContent) {
  const MemoryMap maps[] = {small_map(), small_map()};
  const std::string page = memory_map_page(maps);
  EXPECT_EQ(count_of(page, "<svg xmlns"), 2u);
  EXPECT_EQ(count_of(page, "a &lt;b&gt;"), 2u);  // the title, once per map
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
}

}  // namespace
}  // namespace strobe::report
