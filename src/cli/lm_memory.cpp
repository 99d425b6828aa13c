// `strobe lm memory`: flags to cells, each cell's memory to tables, to the output file and to a picture.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/lm.h"
#include "cli/lm_bench_options.h"
#include "cli/lm_memory_text.h"
#include "cli/written_files.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/file_set.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmMemoryIntroduction =
    "usage: strobe lm memory [--flag value ...]\n\n"
    "What a language model holds over a forward pass and over a training step, at the moment of the peak and by\n"
    "category; the largest tensors; predicted from the shape beside counted by the allocator and, on a GPU, told by "
    "the\n"
    "driver. The page shows every tensor from the operation that writes it to the last that reads it.\n"
    "Several --recompute are compared: what each buys in memory, and the time of its step.\n"
    "A cell that does not fit is a row `oom`; where none does, nothing is written and the exit code is 3.\n\n"
    "  strobe lm memory --size small --context 128,256,512 --precision fp32,bf16\n"
    "  strobe lm memory --size tiny --recompute none,attention,block\n\n";

enum class Timing { none, of_steps };

MemoryRow measured(const LmBenchCell& cell, Timing timing) {
  MemoryRow row{.cell = cell, .figures = {}, .error = {}, .seconds = {}};
  const auto measure = [&] {
    row.figures = lm::measure_memory(cell.one);
    if (timing == Timing::of_steps && cell.one.pass == lm::BenchPass::step) {
      const lm::BenchTimes times = lm::time_step(cell.one);
      row.seconds = times.whole.seconds.min;
      row.skipped = times.skipped;
    }
  };
  row.error = oom_of(title_of(cell), measure).value_or("");
  return row;
}

std::string page_of(const std::vector<MemoryRow>& rows) {
  std::vector<report::MemoryMap> maps;
  for (const MemoryRow& row : rows) {
    if (row.figures) maps.push_back(memory_map(row));
  }
  return report::memory_map_page(maps);
}

}  // namespace

int run_lm_memory(Arguments arguments) {
  LmBenchOptions options = default_lm_bench_options();
  options.warmups = {1};  // of the steps that are timed, as few as tell recomputations apart
  options.steps = 3;
  std::string output = "lm_memory_result.json", page = "lm_memory.html", svg;
  OptionTable table;
  add_lm_cell_options(table, options);
  table.add(make_file_option("output", "JSON; default lm_memory_result.json", output));
  table.add(make_file_option("page", "the picture of all cells; default lm_memory.html", page));
  table.add(make_file_option("svg", "the picture of the last cell's step alone, for documents; default none", svg));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kLmMemoryIntroduction + table.help());
    return kFine;
  }
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  check_apart("--page", page, "--output", output);
  check_apart("--svg", svg, "--output", output);
  check_apart("--svg", svg, "--page", page);
  check_default(output, "lm_memory_result.json", "\"environment\"");
  check_default(page, "lm_memory.html", "<title>Strobe");
  const AtomicFile trial(output, "--output"), page_trial(page, "--page");  // refuse early what cannot be written
  std::optional<AtomicFile> svg_trial;
  if (!svg.empty()) svg_trial.emplace(svg, "--svg");
  set_last_words("lm memory: ended by a signal; nothing was written");
  const bool compares = options.recomputes.size() > 1;
  std::vector<MemoryRow> rows;
  for (LmBenchCell cell : cells) {
    for (const lm::BenchPass pass : {lm::BenchPass::forward, lm::BenchPass::step}) {
      cell.one.pass = pass;
      rows.push_back(measured(cell, compares ? Timing::of_steps : Timing::none));
    }
  }
  print(memory_tables(rows));
  if (std::none_of(rows.begin(), rows.end(), [](const MemoryRow& row) { return row.figures.has_value(); })) {
    return tell_that_none_fits("lm memory", output + " and " + page);
  }
  if (compares) print("\n" + recompute_table(rows));
  set_last_words("lm memory: ended by a signal");  // with some or all of it written
  FileSet files("lm memory:");
  files.add(output, memory_document(rows));
  files.add(page, page_of(rows));
  const bool draws = !svg.empty() && rows.back().figures;
  if (draws) files.add(svg, report::memory_map_svg(memory_map(rows.back())));
  files.commit();
  print(fmt::format("written: {}, {}{}\n", output, page, draws ? ", " + svg : ""));
  return kFine;
}

}  // namespace strobe::cli
