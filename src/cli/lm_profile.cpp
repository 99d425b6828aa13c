// `strobe lm profile`: flags to cells, each cell's profile to tables, to the output file and to a trace.
#include <fmt/format.h>

#include "cli/lm.h"
#include "cli/lm_bench_options.h"
#include "core/atomic_file.h"
#include "core/text_table.h"
#include "lm/profile_trace.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

using lm::Phase;

constexpr const char* kLmProfileIntroduction =
    "usage: strobe lm profile [--flag value ...]\n\n"
    "Where the time of a training step goes on the CPU: by kind and by operation, with calls, FLOP/s of products and\n"
    "attention and bytes/s of the tensors that are read and written; the share of matrix products; the sum of all\n"
    "operations beside the wall clock. The trace opens in Perfetto (ui.perfetto.dev) and chrome://tracing.\n\n"
    "  strobe lm profile --size tiny --context 128 --precision fp32,bf16\n\n";

double wall_of(const lm::Profile& profile) {
  double seconds = 0;
  for (const lm::TimedStep& step : profile.steps) seconds += step.seconds;
  return seconds;
}

double product_share(const lm::Profile& profile, Phase phase) {
  return seconds_of(profile, phase, lm::OperationKind::product) / seconds_of(profile, phase);
}

double product_share(const lm::Profile& profile) {
  double products = 0;
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    products += seconds_of(profile, phase, lm::OperationKind::product);
  }
  return products / seconds_of(profile);
}

TextTable table_of(const char* title, const std::vector<lm::OperationSum>& sums, const lm::Profile& profile) {
  TextTable table;
  table.add_column(title, TextTable::Align::left);
  for (const char* column : {"calls", "ms a step", "share %", "GFLOP/s", "GB/s"}) table.add_column(column);
  const auto steps = static_cast<double>(profile.steps.size());
  for (const lm::OperationSum& sum : sums) {
    table.add_row({sum.name, fmt::format("{:g}", sum.calls / steps), fmt::format("{:.3f}", 1e3 * sum.seconds / steps),
                   fmt::format("{:.1f}", 100 * sum.seconds / seconds_of(profile)),
                   sum.flops > 0 ? fmt::format("{:.1f}", 1e-9 * sum.flops / sum.seconds) : "-",
                   fmt::format("{:.2f}", 1e-9 * sum.bytes / sum.seconds)});
  }
  return table;
}

std::string profile_text(const lm::NamedProfile& one) {
  const lm::Profile& profile = one.profile;
  const double ms = 1e3 / static_cast<double>(profile.steps.size());
  std::string text = one.name + "\n" + table_of("kind", sums_by_kind(profile), profile).text() + "\n" +
                     table_of("operation", sums_by_name(profile), profile).text() + "\n";
  text += fmt::format("matrix products: {:.1f} % of the forward, {:.1f} % of the backward, {:.1f} % of the step\n",
                      100 * product_share(profile, Phase::forward), 100 * product_share(profile, Phase::backward),
                      100 * product_share(profile));
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) {
    text += fmt::format("{} {:.3f} ms, ", name_of(phase), ms * seconds_of(profile, phase));
  }
  return text + fmt::format("all operations {:.3f} ms; wall clock {:.3f} ms a step, {:.3f} ms without the profiler\n",
                            ms * seconds_of(profile), ms * wall_of(profile), 1e3 * profile.plain_seconds);
}

Json sums_json(const std::vector<lm::OperationSum>& sums, double steps) {
  Json list = Json::array();
  for (const lm::OperationSum& sum : sums) {
    list.push_back(Json::object({{"name", sum.name},
                                 {"kind", name_of(sum.kind)},
                                 {"calls_a_step", sum.calls / steps},
                                 {"ms_a_step", 1e3 * sum.seconds / steps},
                                 {"FLOP_a_step", sum.flops / steps},
                                 {"FLOP/s", sum.flops / sum.seconds},
                                 {"bytes/s", sum.bytes / sum.seconds}}));
  }
  return list;
}

Json row_json(const LmBenchCell& cell, const lm::Profile& profile) {
  const auto steps = static_cast<double>(profile.steps.size());
  Json phases = Json::object();
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) {
    phases.set(name_of(phase), 1e3 * seconds_of(profile, phase) / steps);
  }
  return Json::object({{"size", cell.size},
                       {"context", cell.one.shape.context},
                       {"batch", cell.one.batch},
                       {"precision", name_of(cell.one.precision)},
                       {"recompute", name_of(cell.one.recompute)},
                       {"device", "cpu"},
                       {"threads", cell.one.place.threads},
                       {"attention", cell.one.attention.empty() ? "auto" : cell.one.attention},
                       {"steps", cell.one.steps},
                       {"kinds", sums_json(sums_by_kind(profile), steps)},
                       {"operations", sums_json(sums_by_name(profile), steps)},
                       {"phases(ms)", phases},
                       {"product_share_of_forward", product_share(profile, Phase::forward)},
                       {"product_share_of_step", product_share(profile)},
                       {"operations(ms)", 1e3 * seconds_of(profile) / steps},
                       {"wall(ms)", 1e3 * wall_of(profile) / steps},
                       {"wall_without_profiler(ms)", 1e3 * profile.plain_seconds}});
}

}  // namespace

int run_lm_profile(Arguments arguments) {
  LmBenchOptions options = default_lm_bench_options();
  options.device = Device::cpu;
  options.sizes = {"tiny"};
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
  AtomicFile file(options.output, "--output"), trace_file(trace, "--trace");
  std::vector<lm::NamedProfile> profiles;
  Json rows = Json::array();
  for (const LmBenchCell& cell : cells) {
    show_progress(title_of(cell) + " ...");
    profiles.push_back({title_of(cell), lm::profile_step(cell.one)});
    show_progress("");
    print(profile_text(profiles.back()) + "\n");
    rows.push_back(row_json(cell, profiles.back().profile));
  }
  file.commit(Json::object({{"environment", environment_json()}, {"rows", rows}}).dump(1) + "\n");
  trace_file.commit(lm::trace_json(profiles).dump() + "\n");
  print(fmt::format("written: {}, {}\n", options.output, trace));
  return kFine;
}

}  // namespace strobe::cli
