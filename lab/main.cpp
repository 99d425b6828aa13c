// `strobe-lab`: the ladder's driver. `strobe ladder` runs it as a child and reads its rows.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <vector>

#include "core/fail.h"
#include "core/printable.h"
#include "lab/measure.h"
#include "measure/environment.h"
#include "report/ladder.h"

namespace strobe::lab {
namespace {

constexpr const char* kHelp =
    "usage: strobe-lab [--flag value ...]\n\n"
    "Checks each rung of the ladder against float64 on a case, then times it.\n\n"
    "  --list           the rungs, in order\n"
    "  --case C         t01 to t30, or B,N,d; default t28\n"
    "  --scale F        that share of the case's work, above 0 to 1\n"
    "  --rungs A,B      those alone; default all\n"
    "  --limit S        a run that would take longer is done on a smaller case; default 30\n"
    "  --repeats N      exactly that many samples\n"
    "  --time-limit S   for the samples of a rung; default 5\n"
    "  --once           one run of each rung, neither checked nor timed: for a profiler\n"
    "  --json           rows as JSON lines, each when it is known, in place of the table\n";

struct Options {
  std::string size = "t28";
  double scale = 1;
  std::vector<std::string> names{};
  Settings settings{};
  bool list = false, help = false, json = false, once = false;
};

double parse_number(std::string_view flag, std::string_view value) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number > 0) || !(number < 1e9))
    fail(ErrorCode::invalid_argument, "{} {}: not a number above 0", flag, printable_value(value));
  return number;
}

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

Options parse(const std::vector<std::string>& words) {
  Options options;
  std::map<std::string, std::function<void(std::string_view)>> with_value = {
      {"--case", [&](auto value) { options.size = value; }},
      {"--scale", [&](auto value) { options.scale = parse_number("--scale", value); }},
      {"--rungs", [&](auto value) { options.names = split(value); }},
      {"--limit", [&](auto value) { options.settings.limit = parse_number("--limit", value); }},
      {"--time-limit", [&](auto value) { options.settings.rule.time_limit = parse_number("--time-limit", value); }},
      {"--repeats",
       [&](auto value) { options.settings.rule.repeats = static_cast<int>(parse_number("--repeats", value)); }}};
  const std::map<std::string, bool*> alone = {
      {"--list", &options.list}, {"--help", &options.help}, {"--json", &options.json}, {"--once", &options.once}};
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
  return options;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void list_rungs() {
  for (const Rung& rung : rungs()) {
    print(fmt::format("{:<13} {:<4} {}{}\n", rung.name, rung.place == Place::gpu ? "gpu" : "cpu", rung.idea,
                      rung.run ? "" : " (not in this build)"));
  }
}

// Takes rows as they come: to the standard output, or into the table at the end.
class Rows {
 public:
  Rows(bool json, std::string command) : json_(json), command_(std::move(command)) {}

  void add(Json row) {
    if (!json_) return all_.push_back(std::move(row));
    row.set("command", command_);
    row.set("environment", environment_);
    print(row.dump() + "\n");
  }

  void end() const {
    if (!json_) print(report::ladder_table(report::read_ladder(all_)));
  }

 private:
  bool json_;
  std::string command_;
  Json environment_ = environment_json();
  std::vector<Json> all_;
};

void measure_rungs(const std::vector<const Rung*>& chosen, const Case& size, const Options& options, Rows& rows) {
  Subjects subjects;
  for (const Rung* rung : chosen) {
    Json row = Json::object({{"kind", "rung"},
                             {"rung", rung->name},
                             {"idea", rung->idea},
                             {"device", rung->place == Place::gpu ? "gpu" : "cpu"}});
    const std::string refusal = refusal_of(*rung, {size.batch, size.rows, size.dim});
    if (refusal.empty()) {
      rows.add(measure({std::move(row), rung->run}, size, subjects, options.settings));
      continue;
    }
    row.set("case", case_json(size)).set("flops", size.flops()).set("status", "refused").set("reason", refusal);
    rows.add(std::move(row));
  }
}

void run_for_profiler(const std::vector<const Rung*>& chosen, const Case& size) {
  const Inputs inputs(size);
  std::vector<float> o(static_cast<std::size_t>(inputs.problem().elements()));
  for (const Rung* rung : chosen) {
    const std::string refusal = refusal_of(*rung, inputs.problem());
    if (!refusal.empty()) fail(ErrorCode::unsupported, "rung {}: {}", rung->name, refusal);
    rung->run(inputs.problem(), o.data());
  }
}

int run(const std::vector<std::string>& words) {
  const Options options = parse(words);
  if (options.help) return print(kHelp), 0;
  if (options.list) return list_rungs(), 0;
  const Case size = parse_case(options.size, options.scale);
  std::vector<const Rung*> chosen;
  for (const std::string& name : options.names) chosen.push_back(&find_rung(name));
  if (chosen.empty()) {
    for (const Rung& rung : rungs()) chosen.push_back(&rung);
  }
  if (options.once) return run_for_profiler(chosen, size), 0;
  Rows rows(options.json, fmt::format("strobe-lab {}", fmt::join(words, " ")));
  measure_rungs(chosen, size, options, rows);
  rows.end();
  return 0;
}

}  // namespace
}  // namespace strobe::lab

int main(int count, char** words) {
  try {
    return strobe::lab::run({words + 1, words + count});
  } catch (const strobe::Error& error) {
    fmt::print(stderr, "strobe-lab: {}\n", strobe::printable(error.what(), std::string_view::npos));
    const bool input =
        error.code() == strobe::ErrorCode::invalid_argument || error.code() == strobe::ErrorCode::unsupported;
    return input ? 2 : 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "strobe-lab: {}\n", error.what());
    return 3;
  }
}
