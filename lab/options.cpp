// Parses flags. Names of cases and rungs are checked here, before anything runs.
#include "lab/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lab {

const char* const kHelp =
    "usage: strobe-lab [--flag value ...]\n\n"
    "Checks each rung of the ladder against float64 on a case, then times it.\n\n"
    "  --list           the rungs, in order\n"
    "  --case C         t01 to t30, a list (t01,t28) or range (t01-t10), all, or \"b4 s16384 d64\"; default t28\n"
    "  --scale F        this share of a case's work, above 0 and at most 1\n"
    "  --rungs A,B      only these, or none; default all\n"
    "  --ablation       also measures the best kernel without each of its ideas\n"
    "  --tiles          also measures tile sizes, with shared memory and occupancy\n"
    "  --limit S        replaces a run that would take longer by a smaller case; default 30\n"
    "  --repeats N      exactly N samples\n"
    "  --time-limit S   for the samples of a rung; default 5\n"
    "  --json           prints rows as JSON lines, each when it is measured, instead of tables\n"
    "  --once           runs each rung once, unchecked and untimed, for a profiler\n"
    "or\n"
    "  --rung NAME --input FILE --output FILE [--timing]\n"
    "                   solves a problem file of `strobe solve` by that rung\n";

namespace {

double parse_number(std::string_view flag, std::string_view value) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number > 0) || !(number < 1e9))
    fail(ErrorCode::invalid_argument, "{} {}: not a number above 0", flag, printable_value(value));
  return number;
}

int parse_count(std::string_view flag, std::string_view value) {
  const double number = parse_number(flag, value);
  if (number != static_cast<int>(number))
    fail(ErrorCode::invalid_argument, "{} {}: not a whole number", flag, printable_value(value));
  return static_cast<int>(number);
}

// The items of a comma list.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// Refuses a name that is in `names` twice.
void check_distinct(std::string_view flag, std::string_view text, const std::vector<std::string>& names) {
  for (auto one = names.begin(); one != names.end(); ++one) {
    if (std::find(names.begin(), one, *one) != one)
      fail(ErrorCode::invalid_argument, "{} {}: {} is there twice", flag, printable(text), printable(*one));
  }
}

// Appends the cases of a range such as t01-t10, or `item` itself.
void add_case_names(const std::string& item, std::vector<std::string>& names) {
  const std::size_t dash = item.find('-');
  if (dash == std::string::npos) return names.push_back(item);
  const std::span<const Case> cases = course_cases();
  const auto named = [&](const std::string& name) {
    return std::find_if(cases.begin(), cases.end(), [&](const Case& one) { return one.name == name; });
  };
  const auto first = named(item.substr(0, dash)), last = named(item.substr(dash + 1));
  if (first == cases.end() || last == cases.end() || first > last)
    fail(ErrorCode::invalid_argument, "--case {}: valid: a range such as t01-t10", printable_value(item));
  for (auto one = first; one <= last; ++one) names.push_back(one->name);
}

std::vector<Case> parse_cases(std::string_view text, double scale) {
  if (!text.starts_with('t') && text != "all") return {parse_case(text, scale)};
  std::vector<std::string> names;
  for (const std::string& item : split(text == "all" ? "t01-t30" : text)) add_case_names(item, names);
  check_distinct("--case", text, names);
  std::vector<Case> cases;
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
  const std::vector<std::string> names = split(text);
  check_distinct("--rungs", text, names);
  for (const std::string& name : names) chosen.push_back(&find_rung(name));
  return chosen;
}

void check_together(const Options& options, bool one_rung) {
  if (one_rung != options.input.has_value() || one_rung != options.output.has_value())
    fail(ErrorCode::invalid_argument, "--rung, --input and --output go together");
  const bool nothing = options.rungs.empty() && !options.ablation && !options.tiles;
  if (nothing && !options.help && !options.list)
    fail(ErrorCode::invalid_argument, "--rungs none: nothing is left to do without --ablation or --tiles");
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  std::string cases = "t28", names = "all", one;
  double scale = 1;
  const std::map<std::string, std::function<void(const std::string&)>> with_value = {
      {"--case", [&](auto& value) { cases = value; }},
      {"--scale", [&](auto& value) { scale = parse_number("--scale", value); }},
      {"--rungs", [&](auto& value) { names = value; }},
      {"--rung", [&](auto& value) { one = value; }},
      {"--input", [&](auto& value) { options.input = value; }},
      {"--output", [&](auto& value) { options.output = value; }},
      {"--limit", [&](auto& value) { options.settings.limit = parse_number("--limit", value); }},
      {"--time-limit", [&](auto& value) { options.settings.rule.time_limit = parse_number("--time-limit", value); }},
      {"--repeats", [&](auto& value) { options.settings.rule.repeats = parse_count("--repeats", value); }}};
  const std::map<std::string, bool*> alone = {{"--list", &options.list},         {"--help", &options.help},
                                              {"--json", &options.json},         {"--once", &options.once},
                                              {"--ablation", &options.ablation}, {"--tiles", &options.tiles},
                                              {"--timing", &options.timing}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (const auto found = alone.find(words[i]); found != alone.end()) {
      *found->second = true;
      continue;
    }
    const auto found = with_value.find(words[i]);
    if (found == with_value.end())
      fail(ErrorCode::invalid_argument, "{}: unknown; strobe-lab --help lists the flags", printable_value(words[i]));
    if (++i == words.size()) fail(ErrorCode::invalid_argument, "{}: its value is missing", found->first);
    found->second(words[i]);
  }
  options.cases = parse_cases(cases, scale);
  options.rungs = one.empty() ? parse_rungs(names) : std::vector{&find_rung(one)};
  check_together(options, !one.empty());
  return options;
}

}  // namespace strobe::lab
