// Formats a profile as tables and as JSON.
#include "cli/lm/profile_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "core/short_number.h"
#include "lm/profile/profile.h"
#include "results/schema.h"

namespace strobe::cli {
namespace {

using lm::Phase;

constexpr Phase kPhasesInOrder[] = {Phase::forward, Phase::backward, Phase::update};

bool is_traced(const lm::Profile& profile) { return profile.device == Device::cuda; }
double steps_of(const lm::Profile& profile) { return static_cast<double>(profile.steps.size()); }

std::int64_t skipped_steps(const lm::Profile& profile) {
  return std::count_if(profile.steps.begin(), profile.steps.end(),
                       [](const lm::TimedStep& step) { return step.skipped; });
}

double wall_of(const lm::Profile& profile) {
  double seconds = 0;
  for (const lm::TimedStep& step : profile.steps) seconds += step.seconds;
  return seconds;
}

double idle_share(const lm::Profile& profile) { return 1 - busy_seconds(profile) / wall_of(profile); }

std::string rate(double amount, double seconds, const char* format) {
  if (!(amount > 0 && seconds > 0)) return "-";
  return fmt::format(fmt::runtime(format), 1e-9 * amount / seconds);
}

std::string table_of(const char* title, const std::vector<lm::OperationSum>& sums, const lm::Profile& profile) {
  Table table{.columns = {left(title), "calls", "ms per step", "share %", "GFLOP/s", "GB/s"}};
  const double steps = steps_of(profile);
  for (const lm::OperationSum& sum : sums) {
    table.cells.push_back({sum.name, count_text(sum.calls / steps), fmt::format("{:.3f}", 1e3 * sum.seconds / steps),
                           fmt::format("{:.1f}", 100 * sum.seconds / seconds_of(profile)),
                           rate(sum.flops, sum.seconds, "{:.1f}"), rate(sum.bytes, sum.seconds, "{:.2f}")});
  }
  return table.text() + "\n";
}

// Returns the time of each kind of operation per phase.
std::string phase_table(const lm::Profile& profile) {
  Table table{.columns = {left("ms per step")}};
  for (const Phase phase : kPhasesInOrder) table.columns.emplace_back(name_of(phase));
  const auto cell = [&](double seconds) { return fmt::format("{:.3f}", 1e3 * seconds / steps_of(profile)); };
  const auto add = [&](std::string name, auto... kind) {
    std::vector<std::string> cells = {std::move(name)};
    for (const Phase phase : kPhasesInOrder) cells.push_back(cell(seconds_of(profile, phase, kind...)));
    table.cells.push_back(std::move(cells));
  };
  for (const lm::OperationSum& sum : sums_by_kind(profile)) add(sum.name, sum.kind);
  add("all");
  return table.text() + "\n";
}

// The column "cumulative" is the sum of the shares up to and including the row.
std::string kernel_table(const lm::Profile& profile) {
  Table table{.columns = {left("kernel"), "calls", "us per call", "ms per step", "share %", "cumulative %",
                          left("operations")}};
  const double all = record_seconds(profile);
  double until_here = 0;
  for (const lm::KernelSum& sum : sums_by_kernel(profile)) {
    until_here += sum.seconds;
    table.cells.push_back({lm::short_kernel_name(sum.name), count_text(sum.calls / steps_of(profile)),
                           fmt::format("{:.2f}", 1e6 * sum.seconds / sum.calls),
                           fmt::format("{:.3f}", 1e3 * sum.seconds / steps_of(profile)),
                           fmt::format("{:.1f}", 100 * sum.seconds / all),
                           fmt::format("{:.1f}", 100 * until_here / all),
                           sum.operations.empty() ? "-" : fmt::format("{}", fmt::join(sum.operations, ", "))});
  }
  return table.text() + "\n";
}

std::vector<lm::OperationSum> attention_sums(const lm::Profile& profile) {
  std::vector<lm::OperationSum> sums = sums_by_name(profile);
  std::erase_if(sums, [](const lm::OperationSum& sum) { return sum.kind != lm::OperationKind::attention; });
  return sums;
}

std::string scope_table(const lm::Profile& profile) {
  std::vector<lm::OperationSum> scopes;
  for (const lm::OperationSum& sum : attention_sums(profile)) {
    for (lm::OperationSum& scope : sums_by_scope(profile, sum.name)) {
      scope.name = sum.name + " " + scope.name;
      scopes.push_back(std::move(scope));
    }
  }
  return scopes.empty() ? "" : table_of("part of attention", scopes, profile);
}

// Returns the shares of parts in the time of an operation: "attention: softmax 50.0 %, QK^T matmul 30.0 %".
template <class Sum>
std::string shares_line(const lm::OperationSum& whole, const std::vector<Sum>& sums) {
  std::string shares;
  for (const Sum& sum : sums) {
    shares += fmt::format("{}{} {:.1f} %", shares.empty() ? "" : ", ", lm::short_kernel_name(sum.name),
                          100 * sum.seconds / whole.seconds);
  }
  return shares.empty() ? "" : fmt::format("{}: {}\n", whole.name, shares);
}

// Returns the time shares of attention's kernels, or of its parts on the CPU.
std::string attention_lines(const lm::Profile& profile) {
  std::string text;
  for (const lm::OperationSum& sum : attention_sums(profile)) {
    text += is_traced(profile) ? shares_line(sum, sums_by_kernel(profile, sum.name))
                               : shares_line(sum, sums_by_scope(profile, sum.name));
  }
  return text;
}

std::string gpu_lines(const lm::Profile& profile) {
  const double ms = 1e3 / steps_of(profile);
  const double busy = ms * busy_seconds(profile), plain = 1e3 * profile.plain_seconds;
  std::string text = fmt::format("GPU: {} kernels and copies, {:.3f} ms in all, busy {:.3f} ms",
                                 count_text(static_cast<double>(profile.records.size()) / steps_of(profile)),
                                 ms * record_seconds(profile), busy);
  if (outside_seconds(profile) > 0) {
    text += fmt::format(", {:.3f} ms of it outside operations", ms * outside_seconds(profile));
  }
  return text +
         fmt::format("; wall clock of the traced step {:.3f} ms: GPU idle {:.1f} %\n", ms * wall_of(profile),
                     100 * idle_share(profile)) +
         fmt::format(
             "without the profiler: kernel by kernel {:.3f} ms, as a graph {:.3f} ms per step: kernels take "
             "{:.1f} % of the latter\n",
             1e3 * profile.direct_seconds, plain, 100 * busy / plain);
}

Json kernels_json(const std::vector<lm::KernelSum>& sums, double steps) {
  Json list = Json::array();
  for (const lm::KernelSum& sum : sums) {
    Json operations = Json::array();
    for (const std::string& name : sum.operations) operations.push_back(name);
    list.push_back(Json::object({{"name", sum.name},
                                 {"calls_per_step", sum.calls / steps},
                                 {"s_per_step", sum.seconds / steps},
                                 {"operations", operations}}));
  }
  return list;
}

Json sums_json(const std::vector<lm::OperationSum>& sums, double steps) {
  Json list = Json::array();
  for (const lm::OperationSum& sum : sums) {
    list.push_back(Json::object({{"name", sum.name},
                                 {"kind", name_of(sum.kind)},
                                 {"calls_per_step", sum.calls / steps},
                                 {"s_per_step", sum.seconds / steps},
                                 {"flop_per_step", sum.flops / steps},
                                 {"flop_per_s", sum.flops / sum.seconds},
                                 {"bytes_per_s", sum.bytes / sum.seconds}}));
  }
  return list;
}

Json scopes_json(const std::vector<lm::OperationSum>& sums, double steps) {
  Json list = Json::array();
  for (const lm::OperationSum& sum : sums) {
    list.push_back(Json::object({{"name", sum.name},
                                 {"calls_per_step", sum.calls / steps},
                                 {"s_per_step", sum.seconds / steps},
                                 {"flop_per_step", sum.flops / steps}}));
  }
  return list;
}

// Returns the time of each kind of operation per phase, in seconds per step.
Json phases_json(const lm::Profile& profile) {
  Json phases = Json::object();
  for (const Phase phase : kPhasesInOrder) {
    Json kinds = Json::object();
    for (const lm::OperationSum& sum : sums_by_kind(profile)) {
      kinds.set(sum.name, seconds_of(profile, phase, sum.kind) / steps_of(profile));
    }
    phases.set(name_of(phase), std::move(kinds));
  }
  return phases;
}

Json operations_json(const lm::Profile& profile) {
  const std::vector<lm::OperationSum> sums = sums_by_name(profile);
  const Json plain = sums_json(sums, steps_of(profile));
  Json list = Json::array();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Json one = plain.as_array()[i];
    if (is_traced(profile)) {
      one.set("kernels", kernels_json(sums_by_kernel(profile, sums[i].name), steps_of(profile)));
    } else if (const auto scopes = sums_by_scope(profile, sums[i].name); !scopes.empty()) {
      one.set("parts", scopes_json(scopes, steps_of(profile)));
    }
    list.push_back(std::move(one));
  }
  return list;
}

void add_gpu_figures(Json& row, const lm::Profile& profile) {
  const double share = 1 / steps_of(profile);
  row.set("kernels", kernels_json(sums_by_kernel(profile), steps_of(profile)))
      .set("records_per_step", static_cast<double>(profile.records.size()) / steps_of(profile))
      .set("gpu_s", share * record_seconds(profile))
      .set("gpu_outside_operations_s", share * outside_seconds(profile))
      .set("gpu_busy_s", share * busy_seconds(profile))
      .set("gpu_idle_share", idle_share(profile))
      .set("wall_direct_without_profiler_s", profile.direct_seconds);
}

}  // namespace

std::string lm_profile_text(const lm::NamedProfile& named) {
  const lm::Profile& profile = named.profile;
  const double ms = 1e3 / steps_of(profile);
  std::string text = named.name + "\n" + table_of("kind", sums_by_kind(profile), profile) + phase_table(profile) +
                     table_of("operation", sums_by_name(profile), profile) +
                     table_of("matmul of a linear layer", sums_by_matrix(profile), profile);
  text += (is_traced(profile) ? kernel_table(profile) : scope_table(profile)) + attention_lines(profile);
  text += matmul_table(profile);
  if (const std::int64_t skipped = skipped_steps(profile); skipped > 0) {
    text += fmt::format("skipped: {} of {} had a gradient that overflowed and updated nothing; {}\n", skipped,
                        counted(profile.steps.size(), "step"), "a larger --warmup lowers the loss scale first");
  }
  for (const Phase phase : kPhasesInOrder) {
    text += fmt::format("{} {:.3f} ms, ", name_of(phase), ms * seconds_of(profile, phase));
  }
  text += fmt::format("all operations {:.3f} ms", ms * seconds_of(profile));
  if (is_traced(profile)) return text + "\n" + gpu_lines(profile);
  return text + fmt::format("; wall clock {:.3f} ms per step, {:.3f} ms without the profiler\n", ms * wall_of(profile),
                            1e3 * profile.plain_seconds);
}

Json lm_profile_oom_json(const LmBenchCell& cell, const std::string& error) {
  Json row = Json::object({{kVersionKey, kRowVersion}});
  add_model(row, cell);
  return row.set("status", "oom").set("reason", error);
}

Json lm_profile_json(const LmBenchCell& cell, const lm::Profile& profile) {
  const double steps = steps_of(profile);
  Json phases = Json::object();
  for (const Phase phase : kPhasesInOrder) phases.set(name_of(phase), seconds_of(profile, phase) / steps);
  Json row = Json::object({{kVersionKey, kRowVersion}});
  add_model(row, cell);
  row.set("device", is_traced(profile) ? "cuda" : "cpu")
      .set("threads", cell.one.execution.threads)
      .set("attention", cell.one.attention.empty() ? "auto" : cell.one.attention)
      .set("deterministic", cell.one.execution.deterministic)
      .set("steps", cell.one.steps)
      .set("status", "ok")
      .set("skipped", skipped_steps(profile))
      .set("kinds", sums_json(sums_by_kind(profile), steps))
      .set("operations", operations_json(profile))
      .set("attention_is_fused", is_attention_fused(profile))
      .set("matrix_products", sums_json(sums_by_matrix(profile), steps))
      .set("phases_s", phases)
      .set("kinds_of_phases_s", phases_json(profile))
      .set("matmul_shares", matmul_shares_json(profile))
      .set("operations_s", seconds_of(profile) / steps)
      .set("wall_s", wall_of(profile) / steps)
      .set("wall_without_profiler_s", profile.plain_seconds);
  if (is_traced(profile)) add_gpu_figures(row, profile);
  return row;
}

}  // namespace strobe::cli
