// `strobe bench`: flags to cases, cases through the runner, rows to a table and to the output file.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "bench/ceilings.h"
#include "bench/runner.h"
#include "bench/table.h"
#include "cli/case_options.h"
#include "cli/commands.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "device/host/thread_pool.h"
#include "measure/quiet.h"

namespace strobe::cli {
namespace {

constexpr const char* kIntroduction =
    "usage: strobe bench [--flag value ...]\n\n"
    "Measures implementations of attention on one configuration: checked against float64 first, then timed in\n"
    "turns in the same run. Prints a table (medians) and writes JSON.\n\n"
    "  strobe bench --impl Flash2,Pytorch,torch-sdpa --seq_len 2048 --dtype bf16 --causal=both\n\n";

struct BenchOptions {
  CaseOptions one;
  bench::RunOptions run;
  std::string output = "benchmark_result.json";
  std::string cells;  // file of configurations; empty: the one of the flags
  double peer_timeout = 600;
  bool check = true;
  bool quick = false;
  bool pin = true;
};

Option make_switch(std::string name, std::string help, bool& target) {
  return {.name = std::move(name),
          .takes = Takes::optional_value,
          .placeholder = "on|off",
          .help = std::move(help),
          .apply =
              [&target](auto flag, auto value) {
                target = value.empty() || parse_word(flag, value, {"on", "off"}) == "on";
              },
          .words = {"on", "off"}};
}

OptionTable make_table(BenchOptions& options) {
  OptionTable table;
  bench::RunOptions& run = options.run;
  add_case_options(table, options.one);
  table.add({.name = "repeats",
             .aliases = {"repeat"},
             .placeholder = "N",
             .help = "exactly N samples; default: until the median is known within 1 %",
             .apply = [&](auto flag, auto value) {
               run.rule.repeats = static_cast<int>(parse_integer(flag, value, 1, 1000000));
             }});
  table.add({.name = "output",
             .placeholder = "FILE",
             .help = "JSON of all rows; default benchmark_result.json; - is the standard output",
             .apply = [&](auto, auto value) { options.output = value; }});
  table.add(
      {.name = "cells",
       .placeholder = "FILE",
       .help = "several configurations in one run: a line each, of flags that describe one; other flags hold for all",
       .apply = [&](auto, auto value) { options.cells = value; }});
  table.add(make_switch("check", "compare with float64 before timing; default on", options.check));
  table.add({.name = "memory-limit",
             .placeholder = "SIZE",
             .help = "imitate a machine with that much memory, such as 24G",
             .apply = [&](auto flag, auto value) { run.memory_limit = parse_bytes(flag, value); }});
  table.add({.name = "time-limit",
             .placeholder = "SECONDS",
             .help = "of sampling a configuration; default 20",
             .apply = [&](auto flag, auto value) { run.rule.time_limit = parse_seconds(flag, value); }});
  table.add({.name = "peer-timeout",
             .placeholder = "SECONDS",
             .help = "a peer that does not answer for so long has failed; default 600",
             .apply = [&](auto flag, auto value) { options.peer_timeout = parse_seconds(flag, value); }});
  table.add({.name = "seed",
             .placeholder = "N",
             .help = "of the random inputs; default 1",
             .apply = [&](auto flag, auto value) {
               run.seed = static_cast<std::uint64_t>(parse_integer(flag, value, 0, INT64_MAX));
             }});
  table.add(make_switch("pin", "keep to as many cores as threads; default on", options.pin));
  table.add(make_switch("quick", "do not measure the machine's ceilings; default off", options.quick));
  return table;
}

// The configurations of a file: on each line, flags beyond those of the command line. Lines that are empty or begin
// with # are passed over.
std::vector<bench::Case> cells_of(const std::string& path, const CaseOptions& defaults) {
  std::ifstream file(path);
  if (!file) fail(ErrorCode::invalid_argument, "--cells {}: cannot be read", path);
  std::vector<bench::Case> cells;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    CaseOptions one = defaults;
    OptionTable table;
    add_case_options(table, one);
    std::istringstream text(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    const std::vector<std::string_view> views(words.begin(), words.end());
    table.parse(views);
    const Cases found = cases_of(one);
    cells.insert(cells.end(), found.cases.begin(), found.cases.end());
  }
  if (cells.empty()) fail(ErrorCode::invalid_argument, "--cells {}: no configuration in it", path);
  return cells;
}

std::string quoted(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_=.,:/+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string repeat_command(Arguments arguments) {
  std::string command = "strobe bench";
  for (const std::string_view word : arguments) {
    command += ' ';
    command += quoted(word);
  }
  return command;
}

std::string heading(const bench::Case& one, const bench::Ceilings& ceilings) {
  std::string text = describe(one) + "; " + place_of(one);
  if (one.device == Device::cuda && ceilings.copy) text += fmt::format("; copy {:.0f} GB/s", *ceilings.copy * 1e-9);
  if (const auto rate = ceilings.product(one.dtype)) {
    text += fmt::format("; {} matrix product {:.0f} GFLOP/s ({})", name_of(one.dtype), *rate * 1e-9,
                        ceilings.product_name(one.dtype));
  }
  return text + "\n";
}

std::string lines_of(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += "note: " + note + "\n";
  return text;
}

bool any_measured(const std::vector<bench::Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const bench::Row& row) { return row.status == bench::Status::ok; });
}

// 0 where any row was measured; else by why the first was not.
int exit_code(const std::vector<bench::Row>& rows) {
  if (any_measured(rows)) return kFine;
  return rows.at(0).status == bench::Status::unsupported ? kBadInput : kRuntimeFailure;
}

// The JSON of a run: to a file, or for "-" to the standard output, beside which all text goes to the standard error.
class Output {
 public:
  explicit Output(const std::string& name) : name_(name) {
    if (name != "-") file_.emplace(name, "--output");
  }
  void tell(const std::string& text) const { file_ ? print(text) : print_aside(text); }
  void write(const std::string& json) {
    if (!file_) return print(json);
    file_->commit(json);
    print(fmt::format("written: {}\n", name_));
  }

 private:
  std::string name_;
  std::optional<AtomicFile> file_;
};

std::vector<std::string> notes_on_machine(int threads) {
  double load = 0;
  if (getloadavg(&load, 1) != 1 || load < 0.5 * available_cores() || threads < 1) return {};
  return {
      fmt::format("load average {:.1f} on {} cores: others use this machine; trust ratios and minima more than times",
                  load, available_cores())};
}

}  // namespace

int run_bench(Arguments arguments) {
  BenchOptions options;
  const OptionTable table = make_table(options);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kIntroduction + table.help());
    return kFine;
  }
  Cases cases = cases_of(options.one);
  if (!options.cells.empty()) cases = {.cases = cells_of(options.cells, options.one), .scaled = false, .note = {}};
  const bench::Case& first = cases.cases.front();
  for (const bench::Case& one : cases.cases) {  // refuses bad problems before anything is started
    explain(bench::attention_of(one), Pass::forward, bench::execution_of(one));
  }
  Output output(options.output);
  std::vector<std::string> notes = notes_on_machine(first.threads);
  if (!cases.note.empty()) notes.insert(notes.begin(), cases.note);
  output.tell(lines_of(notes));

  if (options.pin && first.device == Device::cpu && first.threads <= available_cores()) pin_to_cores(first.threads);
  show_progress("measure the machine's ceilings");
  const bench::Depth depth = options.quick ? bench::Depth::none : bench::Depth::brief;
  const bench::Ceilings ceilings = bench::ceilings_for(cases.cases, depth);
  if (first.dtype == DType::fp32 && ceilings.disturbed()) {
    output.tell(lines_of({"OpenBLAS sgemm was not left alone: shares of its rate are too high here"}));
  }
  const bench::RunRecord record{
      .environment = bench::full_environment(ceilings), .command = repeat_command(arguments), .scaled = cases.scaled};
  bench::Implementations implementations;
  for (const std::string& name : options.one.implementations) {
    implementations.push_back(
        bench::make_implementation(name, {.device = first.device, .peer_timeout = options.peer_timeout}));
  }
  options.run.check = options.check ? bench::Check::on : bench::Check::off;
  options.run.progress = [](const std::string& step) { show_progress(step); };

  std::vector<bench::Row> all;
  for (const bench::Case& one : cases.cases) {
    const std::vector<bench::Row> rows = bench::run_case(one, implementations, options.run);
    show_progress("");
    for (const bench::Row& row : rows) {
      if (row.status != bench::Status::wrong) continue;
      complain(row.reason);  // a wrong result has no time and no row
      return kFailedCheck;
    }
    output.tell(heading(one, ceilings) + rows_table(rows, ceilings));
    if (any_measured(rows)) {
      output.tell(lines_of(notes_on(rows, options.run.rule)));
    } else {
      for (const bench::Row& row : rows) complain(row.reason);
    }
    all.insert(all.end(), rows.begin(), rows.end());
  }
  Json json = Json::array();
  for (const bench::Row& row : all) json.push_back(row_json(row, record));
  const bool list = options.one.is_list || cases.cases.size() > 1;
  const int code = exit_code(all);
  if (code == kFine) output.write((list ? json : json.as_array().at(0)).dump(1) + "\n");
  return code;
}

}  // namespace strobe::cli
