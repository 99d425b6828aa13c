#include "cli/plan_check.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "cli/commands.h"
#include "cli/lm_bench_options.h"
#include "cli/plan_machine.h"
#include "cli/plan_rows.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "core/statistics.h"
#include "core/text_table.h"
#include "device/host/thread_pool.h"
#include "lm/plan/step_time.h"
#include "lm/predicted_memory.h"

namespace strobe::cli {
namespace {

struct Checked {
  std::string of, figure;  // "small, context 512, batch 4, fp32", "backward ms"
  double measured = 0, predicted = 0;

  double error() const { return predicted / measured - 1; }
};

Checked check_collective(const lm::LinkSample& sample, const lm::Machine& machine) {
  const lm::Machine one_node{.inside = machine.inside};
  const double seconds = lm::collective_cost(one_node, sample.kind, sample.bytes, {sample.ranks, 1}).seconds;
  return {fmt::format("{} of {} MiB, {} ranks", comm::name_of(sample.kind), short_number(sample.bytes / (1 << 20)),
                      sample.ranks),
          "call ms", 1e3 * sample.seconds, 1e3 * seconds};
}

struct MeasuredStep {
  LmBenchCell cell;
  std::optional<double> forward, backward, update, whole;  // seconds; whole: of a step
  std::optional<double> peak;                              // bytes of a step on a CPU
};

struct Measured {
  std::vector<MeasuredStep> steps;
  std::vector<lm::LinkSample> calls;
};

// The size and case of a row of `strobe lm bench`.
LmBenchCell cell_of(const Json& row) {
  const std::string& size = row.at("size").as_string();
  lm::BenchCase one{.shape = lm::shape_of(size),
                    .batch = row.at("batch").as_integer(),
                    .precision = lm::precision_of(row.at("precision").as_string())};
  if (const Json* arch = row.find("arch")) one.shape.architecture = lm::architecture_of(arch->as_string());
  one.shape.context = row.at("context").as_integer();
  lm::check(one.shape);
  if (one.batch < 1 || one.batch > 1 << 20) fail(ErrorCode::invalid_argument, "batch {}; valid: 1 to 2^20", one.batch);
  const std::string& attention = row.at("attention").as_string();
  one.attention = attention == "auto" ? "" : attention;
  if (const Json* recompute = row.find("recompute")) one.recompute = lm::recompute_of(recompute->as_string());
  const std::int64_t threads = row.at("threads").as_integer();
  if (threads < 1 || threads > kMaxThreads) {
    fail(ErrorCode::invalid_argument, "threads {}; valid: 1 to {}", threads, kMaxThreads);
  }
  one.place.threads = static_cast<int>(threads);
  one.place.deterministic = row.at("deterministic").as_bool();
  return {size, one};
}

MeasuredStep step_of(const Json& row) {
  MeasuredStep step{.cell = cell_of(row),
                    .forward = seconds_of(row, "forward"),
                    .backward = seconds_of(row, "backward"),
                    .update = seconds_of(row, "update"),
                    .whole = {},
                    .peak = {}};
  if (row.at("pass").as_string() != "step") return step;
  step.whole = seconds_of(row, "whole");
  // A GPU's workspace is known on that GPU alone.
  if (row.at("device").as_string() == "cpu") step.peak = positive(row.at("whole"), "peak(B)");
  return step;
}

void take_row(const Json& row, Measured& measured) {
  if (is_collective(row)) {
    if (const std::optional<lm::LinkSample> sample = link_sample(row)) measured.calls.push_back(*sample);
  } else if (row.is_object() && row.find("whole")) {
    measured.steps.push_back(step_of(row));
  } else if (!row.is_object() || !row.find("error")) {  // that is of a cell that did not fit
    fail(ErrorCode::invalid_argument, "a row that is neither of strobe lm bench nor of strobe comm");
  }
}

void check_step(const MeasuredStep& step, const lm::Machine& machine, std::vector<Checked>& checked) {
  const lm::BenchCase& one = step.cell.one;
  const lm::StepTime time = lm::step_time({.one = one}, machine);
  const auto add = [&](const char* figure, const std::optional<double>& seconds, double predicted) {
    if (seconds) checked.push_back({title_of(step.cell), figure, 1e3 * *seconds, 1e3 * predicted});
  };
  const bool again = one.recompute != lm::Recompute::none;  // computed twice, which no plan counts
  add("forward ms", step.forward, time.forward);
  if (!again) add("backward ms", step.backward, time.backward);
  add("update ms", step.update, time.update);
  if (!again) add("step ms", step.whole, time.step());
  if (!step.peak) return;
  checked.push_back({title_of(step.cell), "memory MiB", *step.peak / (1 << 20),
                     static_cast<double>(lm::predicted_bytes(one)) / (1 << 20)});
}

std::string table_text(const std::vector<Checked>& checked) {
  TextTable table;
  table.add_column("what", TextTable::Align::left);
  table.add_column("figure", TextTable::Align::left);
  table.add_column("measured");
  table.add_column("predicted");
  table.add_column("error");
  std::map<std::string, std::vector<double>> errors;
  std::string last;
  for (const Checked& one : checked) {
    table.add_row({one.of == last ? "" : one.of, one.figure, short_number(one.measured), short_number(one.predicted),
                   fmt::format("{:+.1f} %", 100 * one.error())});
    errors[one.figure].push_back(std::fabs(one.error()));
    last = one.of;
  }
  std::string summary = "\n";
  for (const auto& [figure, all] : errors) {
    const Summary statistics = summarize(all);
    summary += fmt::format("{}: error {:.1f} % in the median of {}, {:.1f} % at most\n", figure,
                           100 * statistics.median, all.size(), 100 * statistics.max);
  }
  return table.text() + summary;
}

}  // namespace

int check_plan(const PlanOptions& options) {
  Measured measured;
  for (const std::string& file : options.checks) {
    each_result(file, [&](const Json& row) { take_row(row, measured); });
  }
  const std::int64_t devices = measured.calls.empty() ? 1 : 2;
  const PlanMachine links = plan_links(options.machine, devices);
  std::map<lm::Precision, PlanMachine> machines;
  std::vector<Checked> checked;
  for (const MeasuredStep& step : measured.steps) {
    const lm::Precision precision = step.cell.one.precision;
    if (!machines.contains(precision)) machines[precision] = plan_machine(options.machine, precision, devices);
    check_step(step, machines[precision].machine, checked);
  }
  for (const lm::LinkSample& sample : measured.calls) checked.push_back(check_collective(sample, links.machine));
  if (checked.empty()) fail(ErrorCode::invalid_argument, "--check: no row with times in it");
  for (const auto& [precision, machine] : machines) {
    print(fmt::format("device in {}: {}\n", name_of(precision), machine.compute));
  }
  print(fmt::format("links: {}\n\n", links.links.empty() ? "none" : links.links));
  print(table_text(checked));
  return kFine;
}

}  // namespace strobe::cli
