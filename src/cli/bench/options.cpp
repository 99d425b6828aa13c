// Defines the flags of `bench` and builds its cases.
#include "cli/bench/options.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "app/common_options.h"
#include "core/case_text.h"
#include "core/fail.h"

namespace strobe::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // largest file of configurations

std::string read_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    fail(ErrorCode::invalid_argument, "--cells {}: is a folder; valid: a file with one configuration per line", path);
  }
  // Each launch reads the file again, so a pipe would be empty after the first; opening one may also block.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    fail(ErrorCode::invalid_argument,
         "--cells {}: is not a regular file; valid: a file with one configuration per line", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::invalid_argument, "--cells {}: cannot be read: {}", path, std::strerror(errno));
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes) {
    fail(ErrorCode::invalid_argument, "--cells {}: more than {} bytes; valid: one line of flags per configuration",
         path, kMostBytes);
  }
  return text;
}

Cases cases_of_line(const std::vector<std::string>& words, const CaseOptions& defaults) {
  CaseOptions one = defaults;
  one.emb.reset();  // a line that has --emb_dim or --head_dim overrides both
  std::erase(one.given.keys, "head_dim");
  OptionTable table("a configuration");
  add_configuration_options(table, one);
  const std::vector<std::string> flags = with_case_flags(words);
  const std::vector<std::string_view> views(flags.begin(), flags.end());
  if (table.parse(views) == OptionTable::Outcome::help) {
    fail(ErrorCode::invalid_argument, "--help: not a flag of a configuration; valid: see strobe bench --help");
  }
  if (!one.emb && !one.given.has("head_dim")) {
    one.emb = defaults.emb;
    if (defaults.given.has("head_dim")) one.given.keys.emplace_back("head_dim");
  }
  Cases cases = cases_of(one);
  check_problems(cases);
  return cases;
}

}  // namespace

// Rejects a small number without a unit, because the unit was probably forgotten.
std::int64_t parse_memory_limit(std::string_view flag, std::string_view value) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  const std::int64_t bytes = parse_bytes(flag, value);
  const bool has_unit = value.back() < '0' || value.back() > '9';
  if (!has_unit && bytes < kMegabyte) {
    fail(ErrorCode::invalid_argument, "{} {}: {} bytes; did you mean {}G?", flag, value, bytes, value);
  }
  return bytes;
}

OptionTable make_table(BenchOptions& options) {
  OptionTable table;
  add_case_options(table, options.one);
  add_run_options(table, options.how);
  table.begin_group("measurement");
  table.add("launches", "N",
            "repeat the whole run in N processes, one after the other; 5 for `strobe compare`; default 1",
            integer_into(options.launches, 1, 1000));
  table.begin_group("output");
  table.add("output", "FILE", "JSON of all rows; default benchmark_result.json; - is the standard output",
            [&](auto, auto value) { options.output = value; });
  table.begin_group("problem");
  table.add("cells", "FILE", "file of configurations, one line of flags each; flags of the command line apply to all",
            into(options.cells, parse_text));
  return table;
}

Cases cases_of(const BenchOptions& options) {
  if (!options.cells.empty()) return read_cells(options.cells, options.one);
  Cases cases = cases_of(options.one);
  check_problems(cases);
  return cases;
}

void add_run_options(OptionTable& table, RunFlags& options) {
  bench::RunOptions& run = options.run;
  table.begin_group("measurement");
  table.add("repeats", "N", "exactly N samples; default: until the median is known within 1 %",
            integer_into(run.rule.repeats, 1, 1000000), {"repeat"});
  table.add(make_switch("check", "compare with float64 before timing; default on", options.check));
  table.add("memory-limit", "SIZE", "imitate a machine with that much memory, such as 24G",
            into(run.memory_limit, parse_memory_limit));
  table.add("time-limit", "SECONDS",
            "limit for warm-up and samples of a configuration, at most a quarter for warm-up; default 20",
            into(run.rule.time_limit, parse_seconds));
  table.add("peer-timeout", "SECONDS", "time in which a Python implementation must answer; default 600",
            into(options.peer_timeout, parse_seconds));
  table.add(make_seed_option([&run](std::uint64_t seed) { run.seed = seed; }));
  table.add(make_switch("pin", "pin to as many cores as threads; default on", options.pin));
  table.add(make_quick_option(options.quick));
}

Cases read_cells(const std::string& path, const CaseOptions& defaults) {
  Cases all;
  std::istringstream lines(read_text(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream text(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    if (words.empty() || words[0].starts_with('#')) continue;
    try {
      const Cases found = cases_of_line(words, defaults);
      all.cases.insert(all.cases.end(), found.cases.begin(), found.cases.end());
      for (const std::string& note : found.notes) {
        if (std::find(all.notes.begin(), all.notes.end(), note) == all.notes.end()) all.notes.push_back(note);
      }
    } catch (const Error& error) {
      fail(error.code(), "{}:{}: {}", path, number, error.what());
    }
  }
  if (all.cases.empty())
    fail(ErrorCode::invalid_argument, "--cells {}: has no configuration; valid: one line of flags per configuration",
         path);
  return all;
}

}  // namespace strobe::cli
