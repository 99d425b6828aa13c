// Tests the table of flag synonyms, and commands that accept a synonym instead of their own flag.
#include "app/options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/fail.h"

namespace strobe {
namespace {

using Names = std::vector<std::string_view>;

TEST(FlagNames, SynonymsAreMutualAndExcludeTheFlagItself) {
  EXPECT_EQ(flag_synonyms("dtype"), Names{"precision"});
  EXPECT_EQ(flag_synonyms("precision"), Names{"dtype"});
  const Names others = flag_synonyms("context");
  EXPECT_EQ(std::count(others.begin(), others.end(), "seq-len"), 1);
  EXPECT_EQ(std::count(others.begin(), others.end(), "context"), 0);
  EXPECT_TRUE(flag_synonyms("no-such-flag").empty());
}

TEST(FlagNames, ASynonymSetsTheFlagThatTheCommandHas) {
  OptionTable table;
  std::int64_t batch = 0;
  table.add("batch", "N", "help", integer_into(batch, 1, 100));
  const std::vector<std::string_view> words{"--batch_size", "7"};
  EXPECT_EQ(table.parse(words), OptionTable::Outcome::run);
  EXPECT_EQ(batch, 7);
}

TEST(FlagNames, TheFlagsOwnNameWinsOverASynonym) {
  OptionTable table;
  bool json = false;
  std::string output;
  table.add_flag("json", "help", json);
  table.add("output", "FILE", "help", into(output, parse_text));
  const std::vector<std::string_view> words{"--json", "--out", "file"};
  EXPECT_EQ(table.parse(words), OptionTable::Outcome::run);
  EXPECT_TRUE(json);
  EXPECT_EQ(output, "file");
}

TEST(FlagNames, ASwitchIsNoSynonymOfAFlagWithAValue) {
  OptionTable table;
  bool json = false;
  table.add_flag("json", "help", json);
  const std::vector<std::string_view> words{"--output", "file"};
  EXPECT_THROW(table.parse(words), Error);
  EXPECT_FALSE(json);
}

}  // namespace
}  // namespace strobe
