// Parses the command line. Names of cases and rungs are checked here, before anything runs.
#include "lab/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "app/options.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lab {
namespace {

constexpr const char* kIntroduction =
    "usage: strobe-lab [--flag value ...]\n\n"
    "Checks each rung of the ladder against float64 on a case, then times it.\n\n";
constexpr const char* kSolving =
    "or\n  --rung NAME --input FILE --output FILE [--timing]\n"
    "                  solves a problem file of `strobe solve` with that rung\n";

double parse_positive(std::string_view flag, std::string_view value) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number > 0) || !(number < 1e9))
    fail(ErrorCode::invalid_argument, "{} {}: must be a number above 0", flag, printable_value(value));
  return number;
}

// Throws if `names` contains a name twice.
void check_distinct(std::string_view flag, std::string_view text, const std::vector<std::string>& names) {
  for (auto one = names.begin(); one != names.end(); ++one) {
    if (std::find(names.begin(), one, *one) != one)
      fail(ErrorCode::invalid_argument, "{} {}: {} is listed twice; valid: each once", flag, printable(text),
           printable(*one));
  }
}

// Appends the cases of a range such as t01-t10, or `item` itself.
void add_case_names(const std::string& item, std::vector<std::string>& names) {
  const std::size_t dash = item.find('-');
  if (dash == std::string::npos) return names.push_back(item);
  const std::span<const CourseCase> cases = course_cases();
  const auto named = [&](const std::string& name) {
    return std::find_if(cases.begin(), cases.end(), [&](const CourseCase& one) { return one.name == name; });
  };
  const auto first = named(item.substr(0, dash)), last = named(item.substr(dash + 1));
  if (first == cases.end() || last == cases.end() || first > last)
    fail(ErrorCode::invalid_argument, "--case {}: valid: a range such as t01-t10", printable_value(item));
  for (auto one = first; one <= last; ++one) names.push_back(one->name);
}

std::vector<CourseCase> parse_cases(std::string_view text, double scale) {
  if (!text.starts_with('t') && text != "all") return {parse_case(text, scale)};
  std::vector<std::string> names;
  for (const std::string& item : split(text == "all" ? "t01-t30" : text, ',')) add_case_names(item, names);
  check_distinct("--case", text, names);
  std::vector<CourseCase> cases;
  for (const std::string& name : names) cases.push_back(parse_case(name, scale));
  return cases;
}

std::vector<const Rung*> parse_rungs(std::string_view text) {
  std::vector<const Rung*> chosen;
  if (text == "none") return chosen;
  if (text == "all") {
    for (const Rung& rung : rungs()) chosen.push_back(&rung);
    return chosen;
  }
  const std::vector<std::string> names = split(text, ',');
  check_distinct("--rungs", text, names);
  for (const std::string& name : names) chosen.push_back(&find_rung(name));
  return chosen;
}

void check_together(const Options& options, bool one_rung) {
  if (one_rung != options.input.has_value() || one_rung != options.output.has_value())
    fail(ErrorCode::invalid_argument, "--rung, --input and --output go together");
  const bool nothing = options.rungs.empty() && !options.ablation && !options.tiles;
  if (nothing && options.help.empty() && !options.list)
    fail(ErrorCode::invalid_argument, "--rungs none: nothing is left to do without --ablation or --tiles");
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  std::string cases = "t28", names = "all", one;
  double scale = 1;
  OptionTable table;
  table.add_flag("list", "prints the rungs in order", options.list);
  table.add("case", "C", "t01 to t30, a list (t01,t28) or range (t01-t10), all, or \"b4 s16384 d64\"; default t28",
            [&](auto, auto value) { cases = value; });
  table.add("scale", "F", "share of a case's work to run, above 0 and at most 1", into(scale, parse_positive));
  table.add("rungs", "A,B", "rungs to measure, or none; default all", [&](auto, auto value) { names = value; });
  table.add_flag("ablation", "also measures the best kernel without each of its ideas", options.ablation);
  table.add_flag("tiles", "also measures tile sizes, with shared memory and occupancy", options.tiles);
  table.add("limit", "S", "seconds per run; replaces a longer run by a smaller case; default 30",
            into(options.settings.limit, parse_positive));
  table.add("repeats", "N", "exactly N samples", integer_into(options.settings.rule.repeats, 1, 1'000'000'000));
  table.add("time-limit", "S", "seconds of sampling per rung; default 5",
            into(options.settings.rule.time_limit, parse_positive));
  table.add_flag("json", "prints rows as JSON lines, each when it is measured, instead of tables", options.json);
  table.add_flag("once", "runs each rung once, unchecked and untimed, for a profiler", options.once);
  table.add("rung", "NAME", "", [&](auto, auto value) { one = value; });
  table.add("input", "FILE", "", [&](auto, auto value) { options.input = value; });
  table.add("output", "FILE", "", [&](auto, auto value) { options.output = value; });
  table.add_flag("timing", "", options.timing);
  const std::vector<std::string_view> views(words.begin(), words.end());
  if (table.parse(views) == OptionTable::Outcome::help) options.help = kIntroduction + table.help() + kSolving;
  options.cases = parse_cases(cases, scale);
  options.rungs = one.empty() ? parse_rungs(names) : std::vector{&find_rung(one)};
  check_together(options, !one.empty());
  return options;
}

}  // namespace strobe::lab
