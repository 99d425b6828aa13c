// `strobe compare A B`: two result files, cell by cell; the exit code is for CI.
#include <charconv>
#include <optional>

#include "app/options.h"
#include "app/terminal.h"
#include "cli/report/report.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/printable.h"
#include "report/compare.h"

namespace strobe::cli {
namespace {

constexpr const char* kCompareIntroduction =
    "usage: strobe compare A B [--flag value ...]\n\n"
    "Compares two result files of bench or sweep: the ratio of times B / A of each cell that both have, with a 95 %\n"
    "bootstrap interval over process launches (several rows of one cell in a file are its launches), and a verdict.\n"
    "A time here is the least over launches of their lower quartiles, which other work on the machine moves less than\n"
    "the medians that bench prints.\n"
    "Exit code 1 where a slowdown beyond the threshold is proven, else 0.\n\n"
    "  strobe bench --launches 5 --output a.json     # then the same with the other build, to b.json; or sweep\n"
    "  strobe compare a.json b.json --threshold 5% --markdown comment.md\n\n";

// "5%" and "0.05" are the same.
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

}  // namespace

int run_compare(Arguments arguments) {
  double threshold = 0.05;
  std::string markdown;
  std::vector<std::string> files;
  OptionTable table;
  table.take_words([&](std::string_view word) { files.emplace_back(word); });
  table.add("threshold", "PERCENT", "how much slower counts; default 5%", into(threshold, parse_threshold));
  table.add("markdown", "FILE", "also write the comparison as Markdown, for a pull request",
            [&](auto, auto value) { markdown = value; });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kCompareIntroduction + table.help());
    return kFine;
  }
  if (files.size() != 2) {
    fail(ErrorCode::invalid_argument, "compare: {} file{} given; it takes two: strobe compare A B", files.size(),
         files.size() == 1 ? "" : "s");
  }
  for (const std::string& file : files) check_apart("--markdown", markdown, "a result", file);
  const report::Side a{files[0], report::read_results(files[0])}, b{files[1], report::read_results(files[1])};
  std::optional<AtomicFile> output;
  if (!markdown.empty()) output.emplace(markdown, "--markdown");
  const report::Comparison comparison = report::compare(a, b, threshold);
  if (output) output->commit(comparison_markdown(comparison));
  print(comparison_table(comparison));
  if (output) print(fmt::format("written: {}\n", markdown));
  return comparison.count(report::Verdict::slower) > 0 ? kFailedCheck : kFine;
}

}  // namespace strobe::cli
