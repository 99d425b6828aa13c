// Implements `strobe compare A B`, which compares two result files cell by cell. CI uses its exit code.
#include <charconv>
#include <optional>

#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "bench/sweep/grid_file.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/printable.h"
#include "process/spawn.h"
#include "report/limits.h"

namespace strobe::cli {
namespace {

constexpr const char* kCompareIntroduction =
    "usage: strobe compare A [B] [--flag value ...]\n\n"
    "Compares two result files of bench, sweep, lm bench, comm or ladder, or two steps.jsonl of lm train. For each "
    "cell (an implementation on a problem) that both files\n"
    "have, prints the ratio of times B / A, a 95 % bootstrap interval over process launches (the rows of the cell in\n"
    "a file) and a verdict.\n"
    "The time of a cell is the smallest lower quartile of its launches, which other work on the machine affects less "
    "than\n"
    "the medians that bench prints.\n"
    "--require LIMITS checks the cells of B, or of A if there is no B, against limits and prints a verdict for each.\n"
    "Exit code 1 if a slowdown beyond the threshold is proven or a limit is missed, else 0.\n\n"
    "  strobe bench --launches 5 --output a.json    # b.json: the other build\n"
    "  strobe compare a.json b.json --threshold 5% --markdown comment.md\n"
    "  strobe sweep cpu-speed && strobe compare sweep_cpu-speed.jsonl --require cpu-speed\n\n";

// Parses a threshold; "5%" and "0.05" are equal.
double parse_threshold(std::string_view flag, std::string_view value) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string_view unit = value.substr(static_cast<std::size_t>(end - value.data()));
  const bool percent = unit == "%" || unit == " %";
  if (code != std::errc() || !(percent || unit.empty()) || !(number >= 0) || number >= (percent ? 1000 : 1)) {
    fail(ErrorCode::invalid_argument, "{} {}: valid: a percentage such as 5%, or a fraction below 1 such as 0.05", flag,
         printable_value(value));
  }
  return percent ? number / 100 : number;
}

struct CompareOptions {
  std::vector<std::string> files;
  double threshold = 0.05;
  std::string limits, markdown;
  report::Estimate estimate = report::Estimate::median;
};

void check_files(const CompareOptions& options) {
  const std::size_t least = options.limits.empty() ? 2 : 1;
  if (options.files.size() < least || options.files.size() > 2) {
    fail(ErrorCode::invalid_argument, "compare: {} file{} given; it takes {}", options.files.size(),
         options.files.size() == 1 ? "" : "s",
         least == 2 ? "two: strobe compare A B" : "one or two: strobe compare A [B] --require LIMITS");
  }
  for (const std::string& file : options.files) check_apart("--markdown", options.markdown, "a result", file);
}

OptionTable compare_table(CompareOptions& options) {
  OptionTable table;
  table.take_words([&](std::string_view word) { options.files.emplace_back(word); });
  table.add("threshold", "PERCENT", "smallest slowdown that counts; default 5%",
            into(options.threshold, parse_threshold));
  table.add("require", "LIMITS", "limits of a named grid, such as cpu-speed, or a file with a slash in its path",
            into(options.limits, parse_text));
  table.add("by", "median|min", "statistic that limits are checked on; min is for a busy machine; default median",
            [&](auto flag, auto value) {
              const bool is_least = parse_word(flag, value, {"median", "min"}) == "min";
              options.estimate = is_least ? report::Estimate::least : report::Estimate::median;
            });
  table.add("markdown", "FILE", "also write the result as Markdown, for a pull request",
            [&](auto, auto value) { options.markdown = value; });
  table.check_with([&options] { check_files(options); });
  return table;
}

struct Report {
  std::string text, markdown;
  bool is_fine = true;

  void add(std::string_view more, std::string_view more_markdown) {
    const char* const gap = text.empty() ? "" : "\n";
    text += fmt::format("{}{}", gap, more);
    markdown += fmt::format("{}{}", gap, more_markdown);
  }
};

std::string comparison_text(const report::Comparison& comparison) {
  std::string text = comparison_table(comparison);
  for (const std::string& note : comparison_notes(comparison)) text += labelled_line(Style::caution, "note:", note);
  return text + fitting_line(comparison_summary(comparison));
}

void add_judgement(const report::Limits& limits, report::Side side, const report::Comparison* comparison,
                   report::Estimate estimate, Report& report) {
  const std::vector<report::Cell> cells = report::cells_of(std::move(side.results));
  const report::Judgement judgement = report::judge(limits, cells, comparison, estimate);
  const std::string summary = fmt::format("{} of {} limits missed\n", judgement.missed, judgement.limits);
  report.is_fine &= judgement.missed == 0;
  report.add(tables_text(judgement.tables) + summary, tables_markdown(judgement.tables) + "\n" + summary);
}

Report make_report(const CompareOptions& options) {
  std::optional<report::Limits> limits;
  if (!options.limits.empty()) {
    const std::string text = bench::read_sweep_file("--require", options.limits, ".limits", this_program().string());
    limits = report::parse_limits("--require " + options.limits, text);
  }
  std::vector<report::Side> sides;
  for (const std::string& file : options.files) sides.push_back({file, report::read_results(file)});
  Report report;
  std::optional<report::Comparison> comparison;
  if (sides.size() == 2) {
    comparison = report::compare(sides[0], sides[1], options.threshold);
    report.add(comparison_text(*comparison), comparison_markdown(*comparison));
    report.is_fine = comparison->count(report::Verdict::slower) == 0;
  } else if (needs_comparison(*limits)) {
    const auto [odd, even] = report::split_launches(sides[0]);
    comparison = report::compare(odd, even, options.threshold);
  }
  if (limits) {
    add_judgement(*limits, std::move(sides.back()), comparison ? &*comparison : nullptr, options.estimate, report);
  }
  return report;
}

}  // namespace

int run_compare(Arguments arguments) {
  CompareOptions options;
  const OptionTable table = compare_table(options);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kCompareIntroduction + table.help() + "\n" + report::kLimitsFormat);
    return kFine;
  }
  const Report report = make_report(options);
  if (!options.markdown.empty()) AtomicFile(options.markdown, "--markdown").commit(report.markdown);
  print(report.text);
  if (!options.markdown.empty()) print(fmt::format("written: {}\n", options.markdown));
  return report.is_fine ? kFine : kFailedCheck;
}

}  // namespace strobe::cli
