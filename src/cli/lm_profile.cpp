// `strobe lm profile`: flags to cells, each cell's profile to tables, to the output file and to a trace.
#include <fmt/format.h>

#include "cli/lm.h"
#include "cli/lm_bench_options.h"
#include "cli/lm_matmul_text.h"
#include "cli/lm_profile_text.h"
#include "cli/written_files.h"
#include "core/atomic_file.h"
#include "core/file_set.h"
#include "lm/profile/trace.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmProfileIntroduction =
    "usage: strobe lm profile [--flag value ...]\n\n"
    "Profiles a training step: time per operation and per phase, with calls, FLOP/s of matmuls and attention, and "
    "bytes/s\n"
    "of the tensors read and written; the share of matmuls in the forward and in the full step, without and with\n"
    "attention; the sum of all operations compared with the wall clock. --attention standard times the matmuls and "
    "the\n"
    "softmax of attention apart. On CUDA, steps are launched kernel by kernel and traced through CUPTI: kernels by "
    "name,\n"
    "GPU busy time, and the step as a graph. The trace opens in Perfetto (ui.perfetto.dev) and chrome://tracing.\n"
    "A cell that does not fit is a row `oom`; if none fits, nothing is written and the exit code is 3.\n\n"
    "  strobe lm profile --size tiny --context 128 --precision fp32,bf16\n"
    "  strobe lm profile --size tiny --attention standard\n"
    "  strobe lm profile --size small,xl --precision bf16 --device cuda\n\n";

// Those of a list of warm-ups differ by that alone.
std::string named(const LmBenchCell& cell, const LmBenchOptions& options) {
  const std::string name = title_of(cell);
  return options.warmups.size() > 1 ? fmt::format("{}, warm-up {}", name, cell.one.warmup) : name;
}

}  // namespace

int run_lm_profile(Arguments arguments) {
  LmBenchOptions options = default_lm_bench_options();
  options.output = "lm_profile_result.json";
  std::string trace = "lm_profile_trace.json";
  OptionTable table;
  add_lm_cell_options(table, options);
  table.add(make_warmup_option(options));
  table.add(make_steps_option(options));
  table.add(make_file_option("output", "JSON; default lm_profile_result.json", options.output));
  table.add(make_file_option("trace", "for Perfetto; default lm_profile_trace.json", trace));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kLmProfileIntroduction + table.help());
    return kFine;
  }
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  check_apart("--trace", trace, "--output", options.output);
  check_default(options.output, "lm_profile_result.json", "\"environment\"");
  check_default(trace, "lm_profile_trace.json", "\"traceEvents\"");
  const AtomicFile trial(options.output, "--output"), trace_trial(trace, "--trace");  // refuse early
  set_last_words("lm profile: ended by a signal; nothing was written");
  std::vector<lm::NamedProfile> profiles;
  Json rows = Json::array();
  for (const LmBenchCell& cell : cells) {
    const std::string name = named(cell, options);
    const auto profile = [&] { profiles.push_back({name, lm::profile_step(cell.one)}); };
    if (const std::optional<std::string> oom = oom_of(name, profile)) {
      print(fmt::format("oom: {}: {}\n\n", name, *oom));
      rows.push_back(lm_profile_oom_json(cell, *oom));
      continue;
    }
    print(lm_profile_text(profiles.back()) + "\n");
    rows.push_back(lm_profile_json(cell, profiles.back().profile));
  }
  if (profiles.size() > 1) print(matmul_summary(profiles) + "\n");
  if (profiles.empty()) return tell_that_none_fits("lm profile", options.output + " and " + trace);
  set_last_words("lm profile: ended by a signal");  // with some or all of it written
  FileSet files("lm profile:");
  files.add(options.output, Json::object({{"environment", environment_json()}, {"rows", rows}}).dump(1) + "\n");
  files.add(trace, lm::trace_json(profiles).dump() + "\n");
  files.commit();
  print(fmt::format("written: {}, {}\n", options.output, trace));
  return kFine;
}

}  // namespace strobe::cli
