// Defines the table of the course's cases and parses lists of case names.
#include "solve/cases.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::solve {
namespace {

constexpr ProblemSize kSizes[] = {
    {320, 128, 32},   {160, 128, 64},  {160, 256, 32},  {80, 256, 64},   {80, 512, 32},    // t01-t05
    {40, 512, 64},    {40, 1024, 32},  {20, 1024, 64},  {20, 2048, 32},  {10, 2048, 64},   // t06-t10
    {13600, 128, 32}, {9600, 128, 64}, {6400, 256, 32}, {2000, 256, 64}, {2000, 512, 32},  // t11-t15
    {800, 512, 64},   {800, 1024, 32}, {300, 1024, 64}, {300, 2048, 32}, {100, 2048, 64},  // t16-t20
    {500, 2048, 32},  {500, 2048, 64}, {100, 4096, 32}, {100, 4096, 64}, {30, 8192, 32},   // t21-t25
    {10, 8192, 64},   {10, 16384, 32}, {4, 16384, 64},  {4, 32768, 32},  {2, 32768, 64},   // t26-t30
};

std::size_t index_of(const std::vector<TestCase>& cases, std::string_view name, std::string_view subset) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].name == name) return i;
  }
  fail(ErrorCode::invalid_argument,
       "--subset {}: \"{}\" is not a case; valid: {} to {}, in lists and ranges such as t01,t05-t10",
       printable_value(subset), printable(name), cases.front().name, cases.back().name);
}

}  // namespace

std::vector<TestCase> all_cases() {
  std::vector<TestCase> cases;
  for (const ProblemSize& size : kSizes) {
    const std::size_t number = cases.size() + 1;
    cases.push_back({fmt::format("t{:02}", number), static_cast<int>((number - 1) / 10), size});
  }
  return cases;
}

std::vector<TestCase> select_cases(const std::vector<TestCase>& cases, std::string_view subset) {
  std::vector<bool> wanted(cases.size(), false);
  for (std::size_t begin = 0; begin <= subset.size();) {
    const std::size_t end = std::min(subset.find(',', begin), subset.size());
    const std::string_view item = subset.substr(begin, end - begin);
    const std::size_t dash = item.find('-');
    const std::size_t first = index_of(cases, item.substr(0, dash), subset);
    const std::size_t last = dash == std::string_view::npos ? first : index_of(cases, item.substr(dash + 1), subset);
    if (last < first) {
      fail(ErrorCode::invalid_argument, "--subset {}: \"{}\" is reversed; valid: {}-{}", printable_value(subset),
           printable(item), cases[last].name, cases[first].name);
    }
    std::fill(wanted.begin() + static_cast<std::ptrdiff_t>(first),
              wanted.begin() + static_cast<std::ptrdiff_t>(last) + 1, true);
    begin = end + 1;
  }
  std::vector<TestCase> chosen;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (wanted[i]) chosen.push_back(cases[i]);
  }
  return chosen;
}

ProblemSize scaled(const ProblemSize& size, double factor) {
  const auto times = [factor](std::int64_t value) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(value) * factor));
  };
  return {times(size.batch), times(size.rows), size.dim};
}

}  // namespace strobe::solve
