// `strobe lm memory`: flags to cells, and the memory of each cell's two passes to tables, JSON and a picture.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/lm.h"
#include "cli/lm_bench_options.h"
#include "cli/lm_memory_document.h"
#include "cli/lm_memory_text.h"
#include "cli/written_files.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/file_set.h"
#include "lm/plan/device_memory.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmMemoryIntroduction =
    "usage: strobe lm memory [--flag value ...]\n\n"
    "Peak memory of a language model's forward pass and of its training step, counted by the allocator and predicted\n"
    "from the shape, next to the size of one residual-stream tensor: one row per size, context and precision.\n"
    "A forward pass holds no gradients, no optimizer state and nothing saved for a backward.\n"
    "Below the table: what each peak consists of, by category, and the largest tensors. The page shows every tensor "
    "from\n"
    "the operation that writes it to the last that reads it.\n"
    "Several --recompute are compared: the memory that each saves, and the time of its step.\n"
    "A pass that does not fit is `oom`, with its predicted peak; if none fits, nothing is written and the exit code is "
    "3.\n\n"
    "  strobe lm memory --size small --context 128,256,512 --precision fp32,bf16\n"
    "  strobe lm memory --size tiny --attention standard --recompute none,attention,block\n\n";

enum class Timing { none, of_steps };

MemoryRow measured(LmBenchCell cell, lm::BenchPass pass, Timing timing) {
  cell.one.pass = pass;
  MemoryRow row{.cell = cell, .predicted = lm::predicted_bytes(cell.one)};
  const auto measure = [&] {
    row.figures = lm::measure_memory(cell.one);
    if (timing == Timing::of_steps && pass == lm::BenchPass::step) {
      const lm::BenchTimes times = lm::time_step(cell.one);
      row.seconds = times.whole.seconds.min;
      row.skipped = times.skipped;
    }
  };
  row.error = oom_of(title_of(row), measure).value_or("");
  if (!row.error.empty()) row.figures.reset();
  return row;
}

bool fits(const MemoryCell& cell) { return cell.forward.figures || cell.step.figures; }

std::string page_of(const std::vector<MemoryCell>& cells) {
  std::vector<report::MemoryMap> maps;
  for (const MemoryCell& cell : cells) {
    for (const MemoryRow* const row : {&cell.forward, &cell.step}) {
      if (row->figures) maps.push_back(memory_map(*row));
    }
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
  const Timing timing = compares ? Timing::of_steps : Timing::none;
  std::vector<MemoryCell> measured_cells;
  for (const LmBenchCell& cell : cells) {
    measured_cells.push_back({.forward = measured(cell, lm::BenchPass::forward, timing),
                              .step = measured(cell, lm::BenchPass::step, timing)});
  }
  print(peak_table(measured_cells) + memory_details(measured_cells));
  if (std::none_of(measured_cells.begin(), measured_cells.end(), fits)) {
    return tell_that_none_fits("lm memory", output + " and " + page);
  }
  if (compares) print("\n" + recompute_table(measured_cells));
  set_last_words("lm memory: ended by a signal");  // with some or all of it written
  FileSet files("lm memory:");
  files.add(output, memory_document(measured_cells));
  files.add(page, page_of(measured_cells));
  const MemoryRow& last = measured_cells.back().step;
  const bool draws = !svg.empty() && last.figures;
  if (draws) files.add(svg, report::memory_map_svg(memory_map(last)));
  files.commit();
  print(fmt::format("written: {}, {}{}\n", output, page, draws ? ", " + svg : ""));
  return kFine;
}

}  // namespace strobe::cli
