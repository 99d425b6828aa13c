// Flags with a value and flags without; what names cases and rungs is checked here, before anything runs.
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
    "  --case C         t01 to t30, several of them (t01,t28), all, or B,N,d; default t28\n"
    "  --scale F        that share of a case's work, above 0 to 1\n"
    "  --rungs A,B      those alone, or none; default all\n"
    "  --ablation       also the best kernel without each of its ideas\n"
    "  --tiles          also a sweep over tiles, with shared memory and occupancy\n"
    "  --limit S        a run that would take longer is done on a smaller case; default 30\n"
    "  --repeats N      exactly that many samples\n"
    "  --time-limit S   for the samples of a rung; default 5\n"
    "  --json           rows as JSON lines, each when it is known, in place of tables\n"
    "  --once           one run of each rung, neither checked nor timed: for a profiler\n"
    "or\n"
    "  --rung NAME --input FILE --output FILE [--timing]\n"
    "                   a problem file of `strobe solve` in, its answer out, by that rung\n";

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

// The items of a comma list, none of them twice.
std::vector<std::string> split(std::string_view flag, std::string_view text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (auto one = parts.begin(); one != parts.end(); ++one) {
    if (std::find(parts.begin(), one, *one) != one)
      fail(ErrorCode::invalid_argument, "{} {}: {} is there twice", flag, printable(text), printable(*one));
  }
  return parts;
}

std::vector<Case> parse_cases(std::string_view text, double scale) {
  std::vector<Case> cases;
  if (text == "all") {
    for (const Case& one : course_cases()) cases.push_back(parse_case(one.name, scale));
  } else if (text.starts_with('t')) {
    for (const std::string& name : split("--case", text)) cases.push_back(parse_case(name, scale));
  } else {
    cases.push_back(parse_case(text, scale));
  }
  return cases;
}

std::vector<const Rung*> parse_rungs(std::string_view text) {
  std::vector<const Rung*> chosen;
  if (text == "none") return chosen;
  if (text == "all") {
    for (const Rung& rung : rungs()) chosen.push_back(&rung);
    return chosen;
  }
  for (const std::string& name : split("--rungs", text)) chosen.push_back(&find_rung(name));
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
