// Implements `strobe cases gen|check|judge`: generates the course's 30 problem files, checks answers, judges programs.
#include "cli/verbs.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "app/common_options.h"
#include "app/help.h"
#include "app/options.h"
#include "app/program.h"
#include "app/terminal.h"
#include "core/clock.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "solve/case_files.h"
#include "solve/compare_answers.h"

namespace strobe::cli {
namespace {

constexpr const char* kCasesIntroduction =
    "usage: strobe cases gen DIR [--subset t01,t05-t10] [--scale F] [--seed N]\n"
    "       strobe cases check OUT ANSWER\n"
    "       strobe cases judge DIR [--program P] [--subset ...] [--limits 2,6,10] [--json FILE]\n\n"
    "The course's 30 cases: problem files t01 to t30, with values uniform in [-3, 3), and answers t01.out to\n"
    "t30.out, computed in float64. An output passes if every element is within 0.005 of the answer. strobe cases\n"
    "PART --help lists the flags.\n\n"
    "  strobe cases gen cases --subset t01-t10 && strobe cases judge cases\n";

double parse_scale(std::string_view flag, std::string_view value) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number > 0) || number > 1) {
    fail(ErrorCode::invalid_argument, "{} {}: valid: a factor above 0, up to 1, such as 0.25", flag,
         printable_value(value));
  }
  return number;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return;
  fail(ErrorCode::invalid_argument, "{}: not a folder, and cannot be created: {}", printable_value(folder),
       error ? error.message() : "a file is there");
}

}  // namespace

int run_cases_gen(Arguments arguments) {
  std::string subset;
  double scale = 1;
  std::uint64_t seed = 1;
  std::vector<std::string> folders;
  OptionTable table;
  table.take_words([&](std::string_view word) { folders.emplace_back(word); });
  table.add("subset", "t01,t05-t10", "only these cases", into(subset, parse_text));
  table.add("scale", "F", "multiply B and N by F, for small machines; the work shrinks with F^3",
            into(scale, parse_scale));
  table.add(make_seed_option([&seed](std::uint64_t given) { seed = given; }));
  table.check_with([&] {
    if (folders.size() == 1) return;
    fail(ErrorCode::invalid_argument, "cases gen takes one folder; {} given", folders.size());
  });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(
        "usage: strobe cases gen DIR [--flag value ...]\n\nWrites problem files and answers. Existing files of the "
        "same seed and size are kept; any other existing file is an error.\n\n" +
        table.help());
    return kFine;
  }
  std::vector<solve::TestCase> cases =
      subset.empty() ? solve::all_cases() : solve::select_cases(solve::all_cases(), subset);
  for (solve::TestCase& one : cases) {
    one.size = solve::scaled(one.size, scale);
    solve::check_not_another(folders[0], one, seed);
  }
  make_folder(folders[0]);
  std::size_t there = 0;
  for (const solve::TestCase& one : cases) {
    set_signal_message(fmt::format("cases gen: ended by a signal; {} of {} in {}; the same command resumes", there++,
                                   counted(cases.size(), "case"), folders[0]));
    const double begin = now_seconds();
    const solve::Made made = solve::make_case(
        folders[0], one, seed, [&](double done) { show_progress(fmt::format("{} {:.0f} %", one.name, 100 * done)); });
    show_progress("");
    print(fmt::format("{} ({}, {}, {}) {}\n", one.name, one.size.batch, one.size.rows, one.size.dim,
                      made == solve::Made::before ? "exists" : fmt::format("made in {:.1f} s", now_seconds() - begin)));
  }
  const std::string& first = cases.front().name;
  print(fmt::format("written: {0}/{1} and its answer {0}/{1}.out{2}\n", folders[0], first,
                    cases.size() > 1 ? ", and so on" : ""));
  if (!is_quiet()) print(fmt::format("next: strobe cases judge {}\n", strobe::quoted(folders[0])));
  return kFine;
}

int run_cases_check(Arguments arguments) {
  std::vector<std::string> files;
  OptionTable table;
  table.take_words([&](std::string_view word) { files.emplace_back(word); });
  table.check_with([&] {
    if (files.size() == 2) return;
    fail(ErrorCode::invalid_argument, "cases check takes two files, OUT and ANSWER; {} given", files.size());
  });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(
        "usage: strobe cases check OUT ANSWER\n\nExit code 0 if every element of OUT is within 0.005 of ANSWER's, "
        "else 1.\n");
    return kFine;
  }
  const solve::Comparison result = solve::compare_answers(files[0], files[1], solve::kTolerance);
  if (!result.same_size()) {
    print(
        fmt::format("WA: {} has {} bytes, {} has {}\n", files[0], result.output_bytes, files[1], result.answer_bytes));
    return kFailedCheck;
  }
  print(fmt::format("{}: {} elements, largest error {:.3g}, {} beyond {}\n", result.passes() ? "AC" : "WA",
                    result.count(), result.largest, result.mismatches, solve::kTolerance));
  for (const solve::Mismatch& one : result.first) {
    print(fmt::format("  element {}: {} instead of {}\n", one.index, one.found, one.expected));
  }
  return result.passes() ? kFine : kFailedCheck;
}

int run_cases(Arguments arguments) {
  if (arguments.empty() || asks_for_help(arguments[0])) {
    print_help(kCasesIntroduction);
    return kFine;
  }
  constexpr Command kParts[] = {
      {"gen", "", run_cases_gen}, {"check", "", run_cases_check}, {"judge", "", run_cases_judge}};
  return run_command(kParts, "cases ", arguments);
}

}  // namespace strobe::cli
