// Implements `strobe bench`: builds cases from flags, measures them, prints the rows as tables and writes them as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/help.h"
#include "app/progress.h"
#include "app/terminal.h"
#include "bench/ceilings.h"
#include "bench/python_child.h"
#include "bench/row.h"
#include "bench/runner.h"
#include "bench/sweep/problem.h"
#include "cli/bench/launches.h"
#include "cli/bench/neighbours.h"
#include "cli/bench/options.h"
#include "cli/report/row_file.h"
#include "cli/report/verdict_lines.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/clock.h"
#include "device/host/thread_pool.h"

namespace strobe::cli {
namespace {

constexpr const char* kBenchIntroduction =
    "usage: strobe bench [--flag value ...]\n\n"
    "Measures implementations of attention on one configuration. Each is first checked against float64; then all are\n"
    "timed interleaved in the same run. Prints a table (medians) and writes JSON.\n\n"
    "  strobe bench --impl Flash2,Pytorch,torch-sdpa --seq_len 2048 --dtype bf16 --causal=both\n\n";

std::string repeat_command(Arguments arguments) {
  std::vector<std::string_view> words(arguments.begin(), arguments.end());
  std::erase_if(words, [](std::string_view word) {  // drop flags that do not affect what is measured
    return word == "--" + std::string(kEventsFlag) ||
           word.starts_with("--" + std::string(bench::kLentPythonFlag) + "=");
  });
  return quoted_command("bench", words);
}

std::string heading(const bench::AttentionCase& one, const bench::Ceilings& ceilings) {
  std::string text = describe(one) + "; " + place_of(one);
  if (one.device == Device::cuda && ceilings.copy) text += fmt::format("; copy {:.0f} GB/s", *ceilings.copy * 1e-9);
  if (const auto rate = ceilings.matmul(one.dtype)) {
    text += fmt::format("; {} matmul {:.0f} GFLOP/s ({})", name_of(one.dtype), *rate * 1e-9,
                        ceilings.matmul_name(one.dtype));
  }
  return fitting_line(text);
}

bool any_fp32(const Cases& cases) {
  return std::any_of(cases.cases.begin(), cases.cases.end(),
                     [](const bench::AttentionCase& one) { return one.dtype == DType::fp32; });
}

bool any_measured(const std::vector<bench::Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const bench::Row& row) { return row.status == bench::Status::ok; });
}

// If nothing was measured, the exit code is kBadInput only if all rows are unsupported.
int exit_code(const std::vector<bench::Row>& rows) {
  if (any_measured(rows)) return kFine;
  const bool unsupported = std::all_of(rows.begin(), rows.end(),
                                       [](const bench::Row& row) { return row.status == bench::Status::unsupported; });
  return unsupported ? kBadInput : kRuntimeFailure;
}

// Writes the JSON of a run to a file, or for "-" to standard output; all text then goes to standard error.
class Output {
 public:
  explicit Output(const std::string& name) : name_(name) {
    if (name != "-") file_.emplace(name, "--output");
  }
  void print_text(const std::string& text) const { file_ ? print(text) : print_aside(text); }
  void write(const std::string& json) {
    if (!file_) return print(json);
    file_->commit(json);
    print(fmt::format("written: {}\n", name_));
  }

 private:
  std::string name_;
  std::optional<AtomicFile> file_;
};

// Returns the command to try after this one: a comparison, narrower intervals, or other sizes.
std::string next_command(const OptionTable& table, Arguments arguments, const BenchOptions& options,
                         const report::Standing& standing) {
  const std::vector<std::string>& names = options.one.implementations;
  std::vector<std::string_view> words = table.without(arguments, "output");
  if (names.size() == 1) {
    const std::string both = names[0] == "standard" ? "Flash2,Pytorch" : names[0] + ",Pytorch";
    return quoted_command("bench", table.without(words, "impl")) + " --impl " + both;
  }
  if (!standing.is_clear() && options.launches == 1) return quoted_command("bench", words) + " --launches 5";
  if (!options.cells.empty()) return options.output == "-" ? "" : "strobe report " + strobe::quoted(options.output);
  for (const char* flag : {"launches", "seq_len"}) words = table.without(words, flag);
  const std::string sizes = options.one.given.values.seqlen_q > 4096 ? "1024,4096,16384" : "512,1024,2048,4096";
  return quoted_command("sweep", words) + " --seq_len " + sizes;
}

std::string verdict_of(const OptionTable& table, Arguments arguments, const BenchOptions& options, const Json& rows) {
  const report::Standing standing = standing_of(report::cells_of(report::parse_results(rows.dump(), "rows")));
  return verdict_lines(standing, next_command(table, arguments, options, standing));
}

// Returns the predicted time of all cases after case `at`, divided by the predicted time of case `at`.
double later_over_this(const std::vector<bench::AttentionCase>& cases, std::size_t at, const BenchOptions& options) {
  const auto predicted = [&](const bench::AttentionCase& one) {
    return bench::predicted_seconds({one, options.one.implementations, {}}, options.how.run.rule);
  };
  double later = 0;
  for (std::size_t i = at + 1; i < cases.size(); ++i) later += predicted(cases[i]);
  return later / predicted(cases[at]);
}

// State that is created once per run, after all input was validated.
struct Prepared {
  bench::Ceilings ceilings;
  bench::RunRecord record;
  bench::Implementations implementations;
};

Prepared prepare(const BenchOptions& options, const Cases& cases, Arguments arguments,
                 std::optional<pid_t> lent_python = {}) {
  const bench::AttentionCase& first = cases.cases.front();
  const RunFlags& how = options.how;
  if (how.pin && first.device == Device::cpu && first.threads <= available_cores()) pin_to_cores(first.threads);
  Prepared made;
  made.ceilings = bench::ceilings_for(cases.cases, how.quick ? bench::Depth::none : bench::Depth::brief);
  made.record = {.environment = bench::full_environment(made.ceilings), .command = repeat_command(arguments)};
  const auto python = std::make_shared<bench::PythonChild>(how.peer_timeout, lent_python);
  for (const std::string& name : options.one.implementations) {
    made.implementations.push_back(bench::make_implementation(name, {.device = first.device, .python = python}));
  }
  return made;
}

}  // namespace

int run_bench(Arguments arguments) {
  BenchOptions options;
  bool events = false;
  OptionTable table = make_table(options);
  // Internal flags, hidden from --help. --events: prints only steps and rows, as JSON lines, for a sweep. --launch: one
  // launch of --launches. --lent-python: the sweep's Python process, on descriptors 3 and 4.
  table.add_flag(kEventsFlag, "", events);
  bool launch = false;
  table.add_flag(kLaunchFlag, "", launch);
  std::optional<pid_t> lent_python;
  table.add(bench::kLentPythonFlag, "PID", "", integer_into(lent_python, 1, INT32_MAX));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kBenchIntroduction + table.help());
    return kFine;
  }
  if (launch) {
    options.launches = 1;
    options.output = "-";
  }
  const Cases cases = cases_of(options);  // throws for invalid problems before anything is started
  bench::RunOptions run = options.how.run;
  run.check = options.how.check ? bench::Check::on : bench::Check::off;
  if (events) {
    const Prepared prepared = prepare(options, cases, arguments, lent_python);
    return print_events(cases.cases, prepared.implementations, run, prepared.record);
  }
  if (!launch) set_signal_message("bench: ended by a signal; nothing was written");
  check_apart("--output", options.output, "--cells", options.cells);
  check_default(options.output, "benchmark_result.json", "\"forward\"");
  Output output(options.output);
  const auto write = [&](const Json& json) {
    if (!launch) set_signal_message("bench: ended by a signal");  // the output may already be written
    output.write(json.dump(1) + "\n");
  };
  if (options.launches > 1) {
    const LaunchedRows launched = run_launches(arguments, options.launches, repeat_command(arguments));
    if (launched.code != kFine) return launched.code;
    write(launched.rows);
    output.print_text(verdict_of(table, arguments, options, launched.rows));
    return kFine;
  }
  output.print_text(note_lines(cases.notes));
  const Neighbours neighbours;

  show_progress("measure the machine's ceilings");
  const auto [ceilings, record, implementations] = prepare(options, cases, arguments);
  if (any_fp32(cases) && ceilings.disturbed()) {
    output.print_text(note_lines({kSgemmNotAlone}));
  }
  run.progress = [](const std::string& step, const std::string& implementation) {
    show_progress(step == "measure" || implementation.empty() ? step : step + " " + implementation);
  };

  Forecast forecast(launch ? " of this launch" : "");
  std::vector<bench::Row> all;
  for (std::size_t i = 0; i < cases.cases.size(); ++i) {
    const bench::AttentionCase& one = cases.cases[i];
    const double begin = now_seconds(), later = later_over_this(cases.cases, i, options);
    run.left = [&](double seconds) {
      if (seconds > Forecast::kLong) forecast.print_once(seconds + later * (now_seconds() - begin + seconds));
    };
    const std::vector<bench::Row> rows = bench::run_case(one, implementations, run);
    forecast.print_once(later * (now_seconds() - begin));
    show_progress("");
    for (const bench::Row& row : rows) {
      if (row.status != bench::Status::wrong) continue;
      complain(row.reason);  // the row of a wrong result has no times
      return kFailedCheck;
    }
    output.print_text(heading(one, ceilings) + rows_table(rows, ceilings));
    if (any_measured(rows)) {
      output.print_text(note_lines(notes_on(rows, run.rule)));
    } else {
      for (const bench::Row& row : rows) complain(row.reason);
    }
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (cases.cases.front().device == Device::cpu) output.print_text(note_lines(neighbours.notes()));
  Json json = Json::array();
  for (const bench::Row& row : all) json.push_back(row_json(row, record));
  const bool list = options.one.is_list || cases.cases.size() > 1;
  const int code = exit_code(all);
  if (code != kFine) return code;
  write(list ? json : json.as_array().at(0));
  if (!launch) output.print_text(verdict_of(table, arguments, options, json));
  return kFine;
}

}  // namespace strobe::cli
