// Implements `strobe plan --check`: compares measured steps with the formulas of a plan.
#include "cli/plan/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "app/program.h"
#include "app/terminal.h"
#include "cli/plan/steps.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "core/statistics.h"
#include "lm/plan/device_memory.h"
#include "lm/plan/step_time.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

struct Checked {
  std::string of, figure;  // for example "small, context 512, batch 4, fp32" and "backward ms"
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

struct Measured {
  std::vector<MeasuredStep> steps;
  std::vector<lm::LinkSample> calls;
};

void take_row(const Json& row, Measured& measured) {
  if (is_collective(row)) {
    if (const std::optional<lm::LinkSample> sample = link_sample(row)) measured.calls.push_back(*sample);
  } else if (is_step(row)) {
    measured.steps.push_back(measured_step(row));
  } else if (!row.is_object() || !row.find("reason")) {  // a row with "reason" belongs to a cell that did not fit
    fail(ErrorCode::invalid_argument, "not a row of strobe lm bench or strobe comm");
  }
}

// Predicts the times of a step. An exchange that begins after backward does not overlap with it.
lm::StepTime predicted_time(const MeasuredStep& step, const lm::Machine& machine) {
  lm::StepTime time = lm::step_time(step.shared, machine, step.bucket_bytes);
  if (step.start == lm::Start::after_backward) time.exposed = time.backward_exchange;
  return time;
}

void check_step(const MeasuredStep& step, const lm::Machine& machine, std::vector<Checked>& checked) {
  const lm::StepTime time = predicted_time(step, machine);
  const auto add = [&](const char* figure, const std::optional<double>& seconds, double predicted) {
    if (seconds) checked.push_back({step.title, figure, 1e3 * *seconds, 1e3 * predicted});
  };
  const bool recomputed = step.shared.one.recompute != lm::Recompute::none;  // plans do not model the second forward
  add("forward ms", step.phases.forward, time.forward);
  if (!recomputed) add("backward ms", step.phases.backward, time.backward);
  add("update ms", step.phases.update, time.update);
  if (!recomputed) add("exposed ms", step.exposed, time.waiting());
  if (!recomputed) add("step ms", step.whole, time.step());
  if (!step.bytes) return;
  const auto predicted = static_cast<double>(lm::device_memory(step.shared, step.workspace).total());
  checked.push_back({step.title, "memory MiB", *step.bytes / (1 << 20), predicted / (1 << 20)});
}

std::string table_text(const std::vector<Checked>& checked) {
  Table table{.columns = {left("what"), left("figure"), "measured", "predicted", "error"}};
  std::map<std::string, std::vector<double>> errors;
  std::string last;
  for (const Checked& one : checked) {
    table.cells.push_back({one.of == last ? "" : one.of, one.figure, short_number(one.measured),
                           short_number(one.predicted), fmt::format("{:+.1f} %", 100 * one.error())});
    errors[one.figure].push_back(std::fabs(one.error()));
    last = one.of;
  }
  std::string summary = "\n";
  for (const auto& [figure, all] : errors) {
    const Summary statistics = summarize(all);
    summary += fmt::format("{}: median error {:.1f} % of {}, at most {:.1f} %\n", figure, 100 * statistics.median,
                           all.size(), 100 * statistics.max);
  }
  return table.text() + summary;
}

}  // namespace

int check_plan(const PlanOptions& options) {
  Measured measured;
  for (const std::string& file : options.checks) {
    each_row_of_file(file, [&](const Json& row) { take_row(row, measured); });
  }
  std::int64_t devices = measured.calls.empty() ? 1 : 2;
  for (const MeasuredStep& step : measured.steps) devices = std::max(devices, step.shared.mesh.devices());
  const PlanMachine links = plan_links(options.machine, devices);
  std::map<lm::Precision, PlanMachine> machines;
  std::vector<Checked> checked;
  for (const MeasuredStep& step : measured.steps) {
    const lm::Precision precision = step.shared.one.precision;
    if (!machines.contains(precision)) machines[precision] = plan_machine(options.machine, precision, devices);
    check_step(step, machines[precision].machine, checked);
  }
  for (const lm::LinkSample& sample : measured.calls) checked.push_back(check_collective(sample, links.machine));
  if (checked.empty()) fail(ErrorCode::invalid_argument, "--check: no row has times");
  print(
      fmt::format("machine: {} (choose with --machine: {})\n", options.machine.name, fmt::join(machine_names(), ", ")));
  for (const auto& [precision, machine] : machines) {
    print(fmt::format("device in {}: {}\n", name_of(precision), machine.compute));
  }
  print(fmt::format("links: {}\n\n", links.links.empty() ? "none" : links.links));
  print(table_text(checked));
  return kFine;
}

}  // namespace strobe::cli
