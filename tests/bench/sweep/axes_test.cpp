// Tests a sweep's lists of flag values and their combinations.
#include "bench/sweep/grid_file.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe::bench {
namespace {

TEST(Axes, CommasSeparateValues) {
  EXPECT_EQ(make_axis("seq_len", "512,1024").values, (std::vector<std::string>{"512", "1024"}));
  EXPECT_EQ(make_axis("causal", "both").values, (std::vector<std::string>{"off", "on"}));
  EXPECT_EQ(make_axis("causal", "").values, (std::vector<std::string>{"on"}));
  EXPECT_EQ(make_axis("impl", "Flash2,Pytorch").values, (std::vector<std::string>{"Flash2,Pytorch"}));
  EXPECT_EQ(make_axis("lengths", "3,4").values, (std::vector<std::string>{"3,4"}));
}

TEST(Axes, EmptyAndRepeatedItemsAreRejected) {
  for (const char* bad : {",", "512,", ",512", "512,,1024", "512,512"}) {
    EXPECT_THROW(make_axis("seq_len", bad), Error) << bad;
  }
}

TEST(Axes, ALaterAxisReplacesTheEarlierOne) {
  std::vector<Axis> axes{{"a", {"1"}}, {"b", {"2"}}};
  set_axis(axes, {"a", {"3", "4"}});
  set_axis(axes, {"c", {"5"}});
  ASSERT_EQ(axes.size(), 3u);
  EXPECT_EQ(axes[0].values, (std::vector<std::string>{"3", "4"}));
  EXPECT_EQ(axes[2].flag, "c");
}

TEST(Axes, TheLastAxisVariesFastest) {
  const std::vector<Combination> all = product_of({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[1], (Combination{{"a", "1"}, {"b", "y"}}));
  EXPECT_EQ(all[5], (Combination{{"a", "2"}, {"b", "z"}}));
  EXPECT_EQ(product_of({}).size(), 1u);
}

TEST(Axes, TooManyCombinationsAreRejected) {
  const Axis axis{"a", std::vector<std::string>(1000, "1")};
  EXPECT_THROW(product_of({axis, axis}), Error);
  EXPECT_THROW(product_of(std::vector<Axis>(30, axis)), Error);
}

}  // namespace
}  // namespace strobe::bench
