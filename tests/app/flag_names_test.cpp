// Tests synonyms of flags: the table, and their use in a command's flags.
#include "app/flag_names.h"

#include <gmock/gmock.h>

#include "app/options.h"
#include "core/fail.h"

namespace strobe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(FlagNames, SynonymsAreMutualAndExcludeTheFlagItself) {
  EXPECT_THAT(flag_synonyms("dtype"), ElementsAre("precision"));
  EXPECT_THAT(flag_synonyms("precision"), ElementsAre("dtype"));
  EXPECT_THAT(flag_synonyms("context"), Contains("seq-len"));
  EXPECT_THAT(flag_synonyms("no-such-flag"), IsEmpty());
}

TEST(FlagNames, ASynonymSetsTheFlagThatTheCommandHas) {
  OptionTable table;
  std::int64_t batch = 0;
  table.add("batch", "N", "help", integer_into(batch, 1, 100));
  const std::vector<std::string_view> words{"--batch_size", "7"};
  EXPECT_EQ(table.parse(words), OptionTable::Outcome::run);
  EXPECT_EQ(batch, 7);
}

TEST(FlagNames, TheFlagsOwnNameHasPriorityOverASynonym) {
  OptionTable table;
  bool json = false;
  std::string output;
  table.add_alone("json", "help", json);
  table.add("output", "FILE", "help", into(output, parse_text));
  const std::vector<std::string_view> words{"--json", "--out", "file"};
  EXPECT_EQ(table.parse(words), OptionTable::Outcome::run);
  EXPECT_TRUE(json);
  EXPECT_EQ(output, "file");
}

TEST(FlagNames, ASwitchIsNotASynonymOfAFlagWithAValue) {
  OptionTable table;
  bool json = false;
  table.add_alone("json", "help", json);
  const std::vector<std::string_view> words{"--output", "file"};
  EXPECT_THROW(table.parse(words), Error);
  EXPECT_FALSE(json);
}

}  // namespace
}  // namespace strobe
