// Implements `strobe sweep`: measures a grid of problems, each in a child process. A later sweep resumes from its rows.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <unordered_set>

#include "app/help.h"
#include "app/progress.h"
#include "app/terminal.h"
#include "bench/sweep/grid_file.h"
#include "bench/sweep/problem_runner.h"
#include "bench/sweep/result_file.h"
#include "cli/bench/case_options.h"
#include "cli/report/verdict_lines.h"
#include "cli/sweep/options.h"
#include "cli/sweep/progress.h"
#include "cli/verbs.h"
#include "core/counted.h"
#include "core/fail.h"
#include "device/host/instruction_sets.h"
#include "measure/environment.h"
#include "process/spawn.h"

namespace strobe::cli {
namespace {

constexpr const char* kSweepIntroduction =
    "usage: strobe sweep [GRID] [--flag value ...]\n\n"
    "Measures every combination of the values of bench's flags. The values are comma-separated lists on the command\n"
    "line, or come from a grid: a file of such lists. Each problem runs in a child process, which interleaves its\n"
    "implementations. A cell is one implementation on one problem; if it fails, only its own row is lost. Rows are\n"
    "written as JSON lines once they are measured. The same command resumes where the last one stopped, also with\n"
    "more --launches. Exit code 1 if a result is wrong, 2 if all cells are unsupported, else 3 if none is ok.\n\n"
    "  strobe sweep --grid lab5 --shrink 8\n"
    "  strobe sweep --seq_len 512,1024,2048 --dtype fp32,bf16 --causal both --impl Flash2,Pytorch --output "
    "mine.jsonl\n\n";

std::string grids_text(const std::string& program) {
  std::size_t column = 0;
  const std::vector<bench::Grid> grids = bench::named_grids(program);
  for (const bench::Grid& grid : grids) column = std::max(column, grid.name.size() + 4);
  std::string text = "\ngrids:\n";
  for (const bench::Grid& grid : grids) text += help_entry(grid.name, grid.about, column);
  return text;
}

// A first word that is not a flag is the grid.
std::vector<std::string_view> with_grid_flag(Arguments arguments) {
  std::vector<std::string_view> words(arguments.begin(), arguments.end());
  if (!words.empty() && !words[0].starts_with('-')) words.insert(words.begin(), "--grid");
  return words;
}

// Returns true if measuring again may succeed; oom and unsupported are final.
bool is_failure(const std::string& status) { return status != "ok" && status != "oom" && status != "unsupported"; }

// Throws if STROBE_CPU_ISA is not valid: flash2's rows would be errors, which every later sweep would keep.
void check_instruction_set(const SweepPlan& plan) {
  const std::string reason = instruction_set_refusal(forced_instruction_set());
  if (reason.empty()) return;
  for (const bench::SweepProblem& problem : plan.problems) {
    const bool needs_one = std::ranges::find(problem.implementations, "flash2") != problem.implementations.end();
    if (needs_one && problem.one.device == Device::cpu) fail(ErrorCode::invalid_argument, "sweep: {}", reason);
  }
}

// Rows of the result file. Each is checked as it is read: it must belong to this sweep and occur once.
class KnownRows {
 public:
  enum class Failures { keep, retry };

  KnownRows(const SweepPlan& plan, std::string settings, Failures failures)
      : output_(plan.output), settings_(std::move(settings)), failures_(failures) {
    for (const bench::SweepProblem& problem : plan.problems) {
      for (const std::string& name : problem.implementations) cells_.insert(bench::cell_key(problem, name));
      for (const std::string& name : plan.absent_peers) absent_.insert(bench::cell_key(problem, name));
    }
  }

  void accept(const Json& row, int line) {
    std::string key, settings, status, revision;
    try {
      key = bench::cell_key(row);
      settings = row.at("sweep").at("settings").as_string();
      status = row.at("status").as_string();
      // Absent if a GPU child ended before it sent its environment.
      const Json* strobe = row.at("environment").find("strobe");
      revision = strobe ? strobe->at("revision").as_string() : "";
    } catch (const Error& error) {
      refuse(line, fmt::format("is not a row of a sweep: {}", error.what()));
    }
    if (settings != settings_) {
      refuse(line, fmt::format("was measured with \"{}\", but this sweep has \"{}\"", settings, settings_));
    }
    if (!cells_.contains(key) && !absent_.contains(key)) {
      refuse(line, fmt::format("is not a cell of this sweep: {}", brief(row)));
    }
    if (retried_.contains(key) || !keys_.insert(key).second) {
      refuse(line, fmt::format("repeats a row: {}", brief(row)));
    }
    if (failures_ == Failures::retry && is_failure(status) && !absent_.contains(key)) {
      keys_.erase(key);
      retried_.insert(key);
      return;
    }
    count(status);
    if (!revision.empty() && revision != build_revision()) other_revision_ = revision;
  }

  bool has(const bench::SweepProblem& problem, const std::string& name) const {
    return keys_.contains(bench::cell_key(problem, name));
  }
  bool is_retried(const Json& row) const { return retried_.contains(bench::cell_key(row)); }
  void count(const std::string& status) { ++statuses_[status]; }
  std::size_t size() const { return keys_.size(); }
  std::size_t retried() const { return retried_.size(); }  // rows in the file that are measured again
  const std::map<std::string, int>& statuses() const { return statuses_; }
  const std::string& other_revision() const { return other_revision_; }

 private:
  [[noreturn]] void refuse(int line, const std::string& why) const {
    fail(ErrorCode::invalid_argument, "--output {}: line {} {}; valid: a file of the same sweep, or a new one", output_,
         line, why);
  }

  static std::string brief(const Json& row) {
    std::string text = row.at("implementation").as_string();
    for (const char* key :
         {"batch_size", "seq_len", "num_heads", "emb_dim", "causal", "dtype", "device", "threads", "shrink"}) {
      if (const Json* value = row.at("config").find(key)) text += fmt::format(", {} {}", key, value->dump());
    }
    if (const Json* launch = row.find("launch")) text += ", launch " + launch->at("number").dump();
    return text;
  }

  std::string output_, settings_, other_revision_;
  Failures failures_;
  std::unordered_set<std::string> cells_, keys_, retried_;
  std::unordered_set<std::string> absent_;  // cells of SweepPlan::absent_peers; their rows are kept
  std::map<std::string, int> statuses_;
};

// Returns the problems with only those implementations that have no row; leaves out problems that are complete.
std::vector<bench::SweepProblem> without_rows(const std::vector<bench::SweepProblem>& problems,
                                              const KnownRows& known) {
  std::vector<bench::SweepProblem> left;
  for (const bench::SweepProblem& problem : problems) {
    bench::SweepProblem rest = problem;
    std::erase_if(rest.implementations, [&](const std::string& name) { return known.has(problem, name); });
    if (!rest.implementations.empty()) left.push_back(std::move(rest));
  }
  return left;
}

std::string summary_text(const KnownRows& known, const SweepPlan& plan) {
  std::string text;
  int cells = 0, failed = 0;
  for (const auto& [status, count] : known.statuses()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, status);
    cells += count;
    if (is_failure(status)) failed += count;
  }
  const std::string again =
      failed == 0 ? "" : fmt::format("; {} failed, which the same command with --retry measures again", failed);
  return fmt::format("{}: {}\nwritten: {}{}\n", counted(cells, plan.unit()), text.empty() ? "none" : text, plan.output,
                     again);
}

int exit_code(const KnownRows& known, const SweepPlan& plan) {
  const std::map<std::string, int>& statuses = known.statuses();
  if (statuses.contains("wrong")) return kFailedCheck;
  if (!statuses.empty() && !statuses.contains("ok")) {
    const bool unsupported = statuses.size() == 1 && statuses.contains("unsupported");
    fail(unsupported ? ErrorCode::unsupported : ErrorCode::runtime,
         "sweep: no cell is ok; the rows in {} give the reasons", plan.output);
  }
  return kFine;
}

std::vector<std::string> notes_on_file(const std::string& name, const bench::ResultFile& file, const KnownRows& known) {
  std::vector<std::string> notes;
  if (file.torn_bytes() > 0) {
    notes.push_back(
        fmt::format("{}: the last line was incomplete and is removed, {}", name, counted(file.torn_bytes(), "byte")));
  }
  if (known.size() > 0) notes.push_back(fmt::format("{}: resumes after {}", name, counted(known.size(), "row")));
  if (known.retried() > 0) notes.push_back(fmt::format("{}: {} failed; measures them again", name, known.retried()));
  if (!known.other_revision().empty()) {
    notes.push_back(
        fmt::format("{}: has rows of revision {}; this is {}", name, known.other_revision(), build_revision()));
  }
  return notes;
}

// Returns an absolute path, because a name without a folder would be searched in PATH.
std::string checked_program(const std::string& program) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(program, error)) {
    fail(ErrorCode::invalid_argument, "--program {}: no such file", program);
  }
  return std::filesystem::absolute(program).string();
}

// Returns the command to try after the sweep: a comparison if there is none yet, else the report.
std::string next_command(const OptionTable& table, Arguments words, const report::Standing& standing,
                         const std::string& output) {
  if (!standing.leads.empty()) return "strobe report " + strobe::quoted(output);
  const std::string other = standing.leader == "standard" ? "Flash2" : "Pytorch";
  std::vector<std::string_view> kept = table.without(words, "impl");
  kept = table.without(kept, "retry");
  return fmt::format("{} --impl {},{}", quoted_command("sweep", kept),
                     standing.leader.empty() ? "Flash2" : standing.leader, other);
}

void run_problems(const std::vector<bench::SweepProblem>& left, bench::RunnerOptions options, SweepProgress& progress) {
  options.step = [&](const std::string& step, const std::string& name) { progress.step(step, name); };
  bench::ProblemRunner runner(std::move(options));
  for (const bench::SweepProblem& problem : left) {
    progress.problem(problem);
    runner.run(problem, bench::flags_of(problem.one));
  }
  show_progress("");
}

}  // namespace

int run_sweep(Arguments arguments) {
  SweepOptions options;
  OptionTable table;
  add_sweep_options(table, options);
  const std::string self = this_program().string();
  if (table.parse(with_grid_flag(arguments)) == OptionTable::Outcome::help) {
    print_help(kSweepIntroduction + table.help() + grids_text(self));
    return kFine;
  }
  const std::string program = options.program.empty() ? self : checked_program(options.program);
  const SweepPlan plan = make_plan(options, self);
  check_instruction_set(plan);
  const std::string settings = fmt::format("{}", fmt::join(plan.run_words, " "));
  KnownRows known(plan, settings, options.retry ? KnownRows::Failures::retry : KnownRows::Failures::keep);
  const auto accept = [&](const Json& row, int line) { known.accept(row, line); };
  if (options.dry_run) {
    bench::read_rows(plan.output, accept);
    print(note_lines(plan.notes));
    print(dry_run_text(
        plan, [&](const bench::SweepProblem& problem, const std::string& name) { return known.has(problem, name); }));
    return kFine;
  }

  std::unique_ptr<bench::JsonFolder> folder;
  if (!options.json_dir.empty()) folder = std::make_unique<bench::JsonFolder>(options.json_dir, plan.problems);
  bench::ResultFile file(plan.output, accept);
  if (known.retried() > 0) file.drop([&](const Json& row) { return known.is_retried(row); });
  if (folder) {  // also writes the files of rows that a killed sweep left out
    folder->create();
    bench::read_rows(plan.output, [&](const Json& row, int) { folder->write_if_missing(row); });
  }
  std::size_t safe = known.size();  // rows on disk
  const auto report_if_ended = [&](std::size_t rows) {
    set_signal_message(fmt::format("sweep: ended by a signal; {} of {} saved in {}; the same command resumes", rows,
                                   counted(bench::count_cells(plan.problems), "row"), plan.output));
  };
  report_if_ended(safe);
  print(note_lines(plan.notes) + note_lines(notes_on_file(plan.output, file, known)));
  const std::vector<bench::SweepProblem> left = without_rows(plan.problems, known);
  SweepProgress progress(bench::count_cells(plan.problems), left, plan.how.run.rule);
  if (!is_quiet()) {
    print(fmt::format("{} of {} to measure, about {}\n", bench::count_cells(left),
                      counted(bench::count_cells(plan.problems), plan.unit()), duration_text(progress.seconds_left())));
  }
  bench::RunnerOptions running{.program = program,
                               .flags = plan.run_words,
                               .quick = plan.how.quick,
                               .lends_python = program == self,
                               .cell_limit = options.cell_limit,
                               .sweep = Json::object({{"grid", options.grid},
                                                      {"settings", settings},
                                                      {"shard", fmt::format("{}/{}", options.shard, options.shards)}}),
                               .row =
                                   [&](Json row) {
                                     file.append(row);
                                     report_if_ended(++safe);
                                     if (folder) folder->write(row);
                                     known.count(row.at("status").as_string());
                                     progress.row(row);
                                   },
                               .step = {}};
  run_problems(left, std::move(running), progress);
  print(summary_text(known, plan));
  const int code = exit_code(known, plan);
  const report::Standing standing = standing_of(report::cells_of(report::read_results(plan.output)));
  print(verdict_lines(standing, next_command(table, with_grid_flag(arguments), standing, plan.output)));
  return code;
}

}  // namespace strobe::cli
