// Tests lists of cases, and ranges of them, on the command line of strobe-lab.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/options.h"
#include "strobe/error.h"

namespace strobe::lab {
namespace {

std::vector<std::string> case_names(const std::string& text) {
  std::vector<std::string> names;
  for (const CourseCase& one : parse_options({"--case", text}).cases) names.push_back(one.name);
  return names;
}

TEST(Options, AcceptsListsAndRangesOfCases) {
  EXPECT_EQ(case_names("t28"), std::vector<std::string>({"t28"}));
  EXPECT_EQ(case_names("t09-t11,t15,t01"), std::vector<std::string>({"t09", "t10", "t11", "t15", "t01"}));
  EXPECT_EQ(case_names("t07-t07"), std::vector<std::string>({"t07"}));
  EXPECT_EQ(case_names("all").size(), 30u);
  EXPECT_EQ(case_names("t01-t30"), case_names("all"));
}

TEST(Options, RejectsOtherRanges) {
  for (const char* text : {"t10-t01", "t01-", "-t01", "t01-t31", "t01-t02-t03", "t01-t03,t02", "t01-10", "t-t"}) {
    EXPECT_THROW(parse_options({"--case", text}), Error) << text;
  }
}

}  // namespace
}  // namespace strobe::lab
