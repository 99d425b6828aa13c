// Implements `strobe cases judge DIR`: runs a program on each case as the course's judge does, prints verdicts and
// times.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "app/help.h"
#include "app/options.h"
#include "app/signals.h"
#include "app/terminal.h"
#include "cli/course/judge_folder.h"
#include "cli/verbs.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/mapped_file.h"
#include "core/printable.h"
#include "measure/environment.h"
#include "process/child.h"
#include "process/spawn.h"
#include "process/tree.h"
#include "results/table.h"
#include "solve/case_files.h"
#include "solve/compare_answers.h"

namespace strobe::cli {
namespace {

// Seconds between two checks for a signal and for the end of the program: kPollSeconds while its standard output is
// open, kQuietPollSeconds after it was closed.
constexpr double kPollSeconds = 0.02, kQuietPollSeconds = 0.001;

// Ends all processes of a judged program, including those that left its process group or session.
class JudgedProcesses {
 public:
  JudgedProcesses() = default;
  ~JudgedProcesses() { subreaper_.end_others(); }
  JudgedProcesses(const JudgedProcesses&) = delete;
  JudgedProcesses& operator=(const JudgedProcesses&) = delete;

  void end_all() const {
    const std::size_t left = subreaper_.end_others();
    if (left > 0) fail(ErrorCode::runtime, "cases judge: {} processes of the program cannot be killed", left);
  }

 private:
  ChildSubreaper subreaper_;
};

// State that all cases share, prepared before the first one.
struct Judge {
  std::string folder, program;  // folder of the cases; program: an absolute path or a name in PATH
  const JudgedProcesses& processes;
  CaseFilesWatch& files;
};

struct Judged {
  solve::TestCase one;
  std::string verdict;  // AC (accepted), WA (wrong answer), TLE (time limit exceeded), RE (runtime error)
  double seconds = 0, limit = 0;
  std::optional<double> error{};  // largest error, if an output could be compared
  std::string detail{};           // reason for a verdict other than AC
};

std::vector<double> parse_limits(std::string_view flag, std::string_view value) {
  std::vector<double> limits;
  for (const std::string& item : split(value, ',')) limits.push_back(parse_seconds(flag, item));
  if (limits.size() == 3) return limits;
  fail(ErrorCode::invalid_argument, "{} {}: valid: three numbers of seconds, for t01-t10, t11-t20 and t21-t30: 2,6,10",
       flag, printable_value(value));
}

void check_is_there(const std::string& path) {
  if (std::filesystem::exists(path)) return;
  fail(ErrorCode::invalid_argument, "{}: is missing; strobe cases gen makes it", printable_value(path));
}

// Returns the cases whose problem file is in the folder. Throws Error(invalid_argument) if a case of `subset` is
// missing, or if an answer is missing or has the wrong size.
std::vector<solve::TestCase> cases_in(const std::string& folder, const std::string& subset) {
  const std::vector<solve::TestCase> wanted =
      subset.empty() ? solve::all_cases() : solve::select_cases(solve::all_cases(), subset);
  std::vector<solve::TestCase> found;
  for (solve::TestCase one : wanted) {
    const std::string problem = solve::problem_path(folder, one);
    if (subset.empty() && !std::filesystem::exists(problem)) continue;
    check_is_there(problem);
    one.size = solve::ProblemFile(problem).size();
    const std::string answer = solve::answer_path(folder, one);
    check_is_there(answer);
    const auto bytes = static_cast<std::int64_t>(MappedFile(answer, printable_value(answer)).bytes());
    const std::int64_t needed = 4 * one.size.total();
    if (bytes != needed) {
      fail(ErrorCode::invalid_argument, "{}: has {} bytes instead of {}; strobe cases gen makes it again",
           printable_value(answer), bytes, needed);
    }
    found.push_back(std::move(one));
  }
  if (found.empty()) {
    fail(ErrorCode::invalid_argument, "{}: has no cases; strobe cases gen makes them", printable_value(folder));
  }
  return found;
}

// Runs the program, kills all of its processes, and sets a verdict if it failed. A stored signal (app/signals.h) ends
// the wait early. Waits for the program itself, because a child of the program may keep its standard output open.
void run_program(const Judge& judge, const JudgeFolder& folder, Judged& judged) {
  const double begin = now_seconds();
  Child child({judge.program, folder.input(), folder.output()}, {.folder = folder.path()});
  const auto left = [&] { return std::max(0.0, begin + judged.limit - now_seconds()); };
  std::string line;
  bool output_is_open = true;
  while (child.is_running() && left() > 0 && remembered_signal() == 0) {
    const double wait = std::min(left(), kPollSeconds);
    if (output_is_open) {
      output_is_open = child.hear(line, wait) != Child::Heard::end;
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(wait, kQuietPollSeconds)));
    }
  }
  const ChildEnd end = child.end(0);
  judged.seconds = now_seconds() - begin;
  judge.processes.end_all();
  if (judged.seconds > judged.limit) {
    judged.verdict = "TLE";
  } else if (end.signal != 0 || end.code != 0) {
    judged.verdict = "RE";
    judged.detail = end.text();
  }
}

void compare(const JudgeFolder& folder, const std::vector<float>& answer, Judged& judged) {
  judged.verdict = "WA";
  const int output = folder.open_output(judged.detail);
  if (output < 0) return;
  const solve::Comparison result = solve::compare_with_answer(output, answer, solve::kTolerance);
  close(output);
  if (!result.same_size()) {
    judged.detail = fmt::format("{} bytes instead of {}", result.output_bytes, result.answer_bytes);
    return;
  }
  judged.error = result.largest;
  if (result.passes()) judged.verdict = "AC";
  if (!result.first.empty()) {
    judged.detail = fmt::format("{} of {} elements are off; element {}: {} instead of {}", result.mismatches,
                                result.count(), result.first[0].index, result.first[0].found, result.first[0].expected);
  }
}

// Reads the answer before the program runs, so the program cannot change it. The program gets a copy of the problem.
Judged judge_case(const Judge& judge, const solve::TestCase& one, double limit) {
  Judged judged{.one = one, .verdict = {}, .limit = limit};
  const std::string problem = solve::problem_path(judge.folder, one), answer = solve::answer_path(judge.folder, one);
  for (const std::string& path : {problem, answer}) {
    if (judge.files.is_original(path)) continue;
    judged.verdict = "WA";
    judged.detail = fmt::format("{} was changed after judging began; strobe cases gen makes it again", path);
    return judged;
  }
  const std::vector<float> expected = solve::read_answer(answer);
  const JudgeFolder folder(problem);
  if (remembered_signal() != 0) return judged;
  run_program(judge, folder, judged);
  if (const std::string changed = judge.files.newly_changed(); !changed.empty()) {
    judged.verdict = "WA";
    judged.detail = fmt::format("{} was changed while it ran; strobe cases gen makes it again", changed);
  }
  if (judged.verdict.empty()) compare(folder, expected, judged);
  return judged;
}

// Returns the program's path in a form that is valid in any working folder. Throws Error(unsupported) if the program is
// not executable.
std::string absolute_program(const std::string& program) {
  if (program.find('/') == std::string::npos) return program;  // found through PATH
  if (access(program.c_str(), X_OK) != 0) {
    fail(ErrorCode::unsupported, "cannot start {}: {}", printable_value(program), std::strerror(errno));
  }
  return std::filesystem::absolute(program).lexically_normal().string();
}

CaseFilesWatch watch_files(const std::string& folder, const std::vector<solve::TestCase>& cases) {
  std::vector<std::string> paths;
  for (const solve::TestCase& one : cases) {
    paths.push_back(solve::problem_path(folder, one));
    paths.push_back(solve::answer_path(folder, one));
  }
  return CaseFilesWatch(paths);
}

std::string score_table(const std::vector<Judged>& all) {
  Table scores{.columns = {left("case"), "B", "N", "d", left("verdict"), "seconds", "limit", "max error", left("")}};
  for (const Judged& judged : all) {
    scores.cells.push_back({judged.one.name, std::to_string(judged.one.size.batch),
                            std::to_string(judged.one.size.rows), std::to_string(judged.one.size.dim), judged.verdict,
                            fmt::format("{:.3f}", judged.seconds), fmt::format("{:g}", judged.limit),
                            judged.error ? fmt::format("{:.2g}", *judged.error) : "-", printable(judged.detail, 200)});
  }
  return scores.text();
}

Json json_of(const std::vector<Judged>& all, const std::string& program, int accepted) {
  Json rows = Json::array();
  for (const Judged& judged : all) {
    Json row = Json::object({{"case", judged.one.name},
                             {"B", judged.one.size.batch},
                             {"N", judged.one.size.rows},
                             {"d", judged.one.size.dim},
                             {"verdict", judged.verdict},
                             {"seconds", judged.seconds},
                             {"limit", judged.limit},
                             {"max_error", judged.error ? Json(*judged.error) : Json()}});
    if (!judged.detail.empty()) row.set("detail", judged.detail);
    rows.push_back(std::move(row));
  }
  return Json::object({{"program", program},
                       {"tolerance", solve::kTolerance},
                       {"accepted", accepted},
                       {"cases", std::move(rows)},
                       {"environment", environment_json()}});
}

}  // namespace

int run_cases_judge(Arguments arguments) {
  std::string program, subset, json;
  std::vector<double> limits{2, 6, 10};
  std::vector<std::string> folders;
  OptionTable table;
  table.take_words([&](std::string_view word) { folders.emplace_back(word); });
  table.add("program", "P", "started as P INPUT OUTPUT; default: hw4 in this program's folder",
            into(program, parse_text));
  table.add("subset", "t01,t05-t10", "only these cases; default: all in the folder", into(subset, parse_text));
  table.add("limits", "2,6,10", "seconds allowed per case of t01-t10, t11-t20 and t21-t30, including program start",
            into(limits, parse_limits));
  table.add("json", "FILE", "also write the results as JSON", into(json, parse_text));
  table.check_with([&] {
    if (folders.size() == 1) return;
    fail(ErrorCode::invalid_argument, "cases judge takes one folder; {} given", folders.size());
  });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(
        "usage: strobe cases judge DIR [--flag value ...]\n\nRuns a program on each case, in a private folder below "
        "TMPDIR that holds a copy of the\nproblem. When it ends, all processes that it started are killed. Verdicts: "
        "AC (accepted: every "
        "element within 0.005), WA (wrong answer),\nTLE (time limit exceeded), RE (runtime error). Exit code 0 if all "
        "are "
        "AC, else 1.\n\n" +
        table.help());
    return kFine;
  }
  const std::vector<solve::TestCase> cases = cases_in(folders[0], subset);
  check_apart("--json", json, "the list of cases", solve::list_path(folders[0]));
  for (const solve::TestCase& one : cases) {
    check_apart("--json", json, "case " + one.name, solve::problem_path(folders[0], one));
    check_apart("--json", json, "the answer of " + one.name, solve::answer_path(folders[0], one));
  }
  std::optional<AtomicFile> file;
  if (!json.empty()) file.emplace(json, "--json");
  if (program.empty()) program = this_program().parent_path() / "hw4";
  constexpr const char* kEnded = "cases judge: ended by a signal; nothing was written";
  set_signal_message(kEnded);
  remember_first_signal();  // on a signal, the program's processes and folder are removed first
  const JudgedProcesses processes;
  CaseFilesWatch files = watch_files(folders[0], cases);
  const Judge judge{folders[0], absolute_program(program), processes, files};
  std::vector<Judged> all;
  int accepted = 0;
  for (const solve::TestCase& one : cases) {
    show_progress(fmt::format("{} of {}: {}", all.size() + 1, cases.size(), one.name));
    all.push_back(judge_case(judge, one, limits.at(static_cast<std::size_t>(one.group))));
    accepted += all.back().verdict == "AC" ? 1 : 0;
    if (const int signal = remembered_signal(); signal != 0) {
      complain(kEnded);
      return 128 + signal;
    }
  }
  show_progress("");
  print(score_table(all));
  print(fmt::format("score: {} of {} accepted\n", accepted, all.size()));
  if (file) {
    file->commit(json_of(all, program, accepted).dump(2) + "\n");
    print(fmt::format("written: {}\n", json));
  }
  return accepted == static_cast<int>(all.size()) ? kFine : kFailedCheck;
}

}  // namespace strobe::cli
