// Implements `strobe lm profile`: profiles every combination of the flags' values (a cell), prints tables and writes
// the output file and a trace.
#include <fmt/format.h>

#include <vector>

#include "app/help.h"
#include "app/terminal.h"
#include "cli/lm/bench_options.h"
#include "cli/lm/profile_text.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/file_set.h"
#include "lm/profile/profile.h"
#include "lm/profile/trace.h"
#include "measure/environment.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmProfileIntroduction =
    "usage: strobe lm profile [--flag value ...]\n\n"
    "Profiles a training step: time per operation and per phase, with calls, FLOP/s of matmuls and attention, and "
    "bytes/s\n"
    "of the tensors read and written; the share of matmuls in the forward and in the full step, without and with\n"
    "attention; the sum of all operations compared with the wall clock. --attention standard times the matmuls and "
    "the\n"
    "softmax of attention separately. On CUDA, steps are launched kernel by kernel and traced through CUPTI: kernels "
    "by "
    "name,\n"
    "GPU busy time, and the step as a graph. The trace opens in Perfetto (ui.perfetto.dev) and chrome://tracing.\n"
    "A combination that does not fit the memory gives a row `oom`; if none fits, nothing is written and the exit code "
    "is 3.\n\n"
    "  strobe lm profile --size tiny --context 128 --precision fp32,bf16\n"
    "  strobe lm profile --size tiny --attention standard\n"
    "  strobe lm profile --size small,xl --precision bf16 --device cuda\n\n";

// Returns the title of a cell, with the warm-up if several warm-ups are measured.
std::string named(const LmBenchCell& cell, const LmBenchOptions& options) {
  const std::string name = title_of(cell);
  return options.warmups.size() > 1 ? fmt::format("{}, warm-up {}", name, cell.one.warmup) : name;
}

using lm::MatmulTime;
using lm::Phase;

constexpr const char* kFusedNote =
    "fused attention computes its matmuls and softmax in one kernel: rows and columns \"with attention\" include all "
    "of "
    "it;\n--attention standard times them separately\n";

struct Span {
  const char* title;
  const char* key;  // in JSON
  MatmulTime time;
};

std::vector<Span> spans_of(const lm::Profile& profile) {
  return {{"forward", "forward", matmul_time(profile, {Phase::forward})},
          {"backward", "backward", matmul_time(profile, {Phase::backward})},
          {"forward and backward", "forward_backward", matmul_time(profile, {Phase::forward, Phase::backward})},
          {"step", "step", matmul_time(profile, {Phase::forward, Phase::backward, Phase::update})}};
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace

int run_lm_profile(Arguments arguments) {
  LmBenchOptions options = default_lm_bench_options();
  options.output = "lm_profile_result.json";
  std::string trace = "lm_profile_trace.json";
  OptionTable table;
  add_lm_cell_options(table, options);
  table.begin_group("measurement");
  table.add(make_warmup_option(options));
  table.add(make_steps_option(options));
  table.begin_group("output");
  table.add(make_file_option("output", "JSON; default lm_profile_result.json", options.output));
  table.add(make_file_option("trace", "for Perfetto; default lm_profile_trace.json", trace));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kLmProfileIntroduction + table.help());
    return kFine;
  }
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  check_apart("--trace", trace, "--output", options.output);
  check_default(options.output, "lm_profile_result.json", "\"environment\"");
  check_default(trace, "lm_profile_trace.json", "\"traceEvents\"");
  const AtomicFile trial(options.output, "--output"), trace_trial(trace, "--trace");  // throw before measuring
  set_signal_message("lm profile: ended by a signal; nothing was written");
  std::vector<lm::NamedProfile> profiles;
  Json rows = Json::array();
  for (const LmBenchCell& cell : cells) {
    const std::string name = named(cell, options);
    const auto profile = [&] { profiles.push_back({name, lm::profile_step(cell.one)}); };
    if (const std::optional<std::string> oom = oom_of(name, profile)) {
      print(labelled_line(Style::caution, "oom:", fmt::format("{}: {}", name, *oom)) + "\n");
      rows.push_back(lm_profile_oom_json(cell, *oom));
      continue;
    }
    print(lm_profile_text(profiles.back()) + "\n");
    rows.push_back(lm_profile_json(cell, profiles.back().profile));
  }
  if (profiles.size() > 1) print(matmul_summary(profiles) + "\n");
  if (profiles.empty()) return complain_that_none_fits("lm profile", options.output + " and " + trace);
  set_signal_message("lm profile: ended by a signal");  // the output may already be written
  FileSet files("lm profile:");
  files.add(options.output, Json::object({{"environment", environment_json()}, {"rows", rows}}).dump(1) + "\n");
  files.add(trace, lm::trace_json(profiles).dump() + "\n");
  files.commit();
  print(fmt::format("written: {}, {}\n", options.output, trace));
  return kFine;
}

std::string matmul_table(const lm::Profile& profile) {
  const bool is_fused = is_attention_fused(profile);
  const std::vector<Span> spans = spans_of(profile);
  Table table{.columns = {left("share of time, %")}};
  for (const Span& span : spans) table.columns.emplace_back(span.title);
  const auto add = [&](std::string name, auto share_of) {
    std::vector<std::string> cells = {std::move(name)};
    for (const Span& span : spans) cells.push_back(percent(share_of(span.time)));
    table.cells.push_back(std::move(cells));
  };
  const auto add_part = [&](const char* name, double MatmulTime::*part) {
    add(name, [&](const MatmulTime& time) { return time.all() > 0 ? time.*part / time.all() : 0; });
  };
  add_part("matmuls of linear layers", &MatmulTime::linear);
  if (!is_fused) add_part("matmuls of attention", &MatmulTime::attention_matmuls);
  add_part(is_fused ? "attention, fused" : "rest of attention", &MatmulTime::attention_rest);
  add_part("other", &MatmulTime::other);
  add("matmuls, with attention", [&](const MatmulTime& time) { return time.share_with_attention(is_fused); });
  return table.text() + (is_fused ? kFusedNote : "");
}

std::string matmul_summary(std::span<const lm::NamedProfile> profiles) {
  Table table{.columns = {left("share of matmuls, %"), "forward", "backward", "step", "with attention: forward",
                          "backward", "step"}};
  bool any_fused = false;
  for (const lm::NamedProfile& one : profiles) {
    const bool is_fused = is_attention_fused(one.profile);
    any_fused |= is_fused;
    const MatmulTime times[] = {matmul_time(one.profile, {Phase::forward}), matmul_time(one.profile, {Phase::backward}),
                                matmul_time(one.profile, {Phase::forward, Phase::backward, Phase::update})};
    std::vector<std::string> cells = {one.name};
    for (const MatmulTime& time : times) cells.push_back(percent(time.linear_share()));
    for (const MatmulTime& time : times) cells.push_back(percent(time.share_with_attention(is_fused)));
    table.cells.push_back(std::move(cells));
  }
  return table.text() + (any_fused ? kFusedNote : "");
}

Json matmul_shares_json(const lm::Profile& profile) {
  const bool is_fused = is_attention_fused(profile);
  const double share = 1 / static_cast<double>(profile.steps.size());
  Json shares = Json::object();
  for (const Span& span : spans_of(profile)) {
    shares.set(span.key, Json::object({{"linear", span.time.linear_share()},
                                       {"with_attention", span.time.share_with_attention(is_fused)},
                                       {"linear_s", share * span.time.linear},
                                       {"attention_matmuls_s", share * span.time.attention_matmuls},
                                       {"attention_rest_s", share * span.time.attention_rest},
                                       {"other_s", share * span.time.other}}));
  }
  return shares;
}

}  // namespace strobe::cli
