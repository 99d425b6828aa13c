// Implements `strobe plan`: predicts the memory and time of training steps on device meshes, prints tables and writes
// JSON, Markdown and charts.
#include <fmt/format.h>

#include <filesystem>

#include "app/common_options.h"
#include "app/help.h"
#include "app/terminal.h"
#include "cli/plan/machine.h"
#include "cli/plan/options.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/gpu_facts.h"
#include "lm/plan/device_memory.h"
#include "lm/plan/step_time.h"
#include "measure/environment.h"
#include "ops/execution_context.h"
#include "report/plans.h"
#include "results/schema.h"

namespace strobe::cli {
namespace {

constexpr const char* kPlanTitle = "Plan";

constexpr const char* kPlanIntroduction =
    "usage: strobe plan [--flag value ...]\n\n"
    "Predicts memory and time of a training step on many devices: bytes per device, communication, and how much of it\n"
    "overlaps with compute, from measured or given figures of a machine. Nothing is trained. Writes FILE.json, "
    "FILE.md\n"
    "and, for two or more numbers of devices, two SVG charts. Every formula: docs/plan.md.\n\n"
    "  strobe plan --size xl --machine h200 --mesh tensor=5 --devices 40,80,160\n"
    "  strobe plan --machine here --comm comm.jsonl --check lm_bench_result.json,comm.jsonl\n\n";

// Returns the largest workspace of an operation in bytes. With --machine here and --network decoder it is
// predicted for this machine's device, otherwise it is that of cuBLAS.
std::size_t workspace_of(const PlanOptions& options, lm::BenchCase one) {
  if (options.machine.name != "here" || options.network != lm::Network::decoder) return ops::kWorkspaceBytes;
  one.execution = {.device = current_gpu().reason.empty() ? Device::cuda : Device::cpu,
                   .threads = threads_of(options.machine.threads)};
  return lm::predicted_workspace(one);
}

std::string model_of(const PlanOptions& options, const lm::BenchCase& one) {
  const ShapeFlags& flags = options.shape;
  if (options.network == lm::Network::feed_forward) {
    return fmt::format("feed-forward, {} layers of {} x {}, ", one.shape.layers, one.shape.d_model, one.shape.d_ff);
  }
  const std::size_t others = flags.numbers.keys.size() - (flags.numbers.has("context") ? 1 : 0);
  const lm::Architecture architecture = one.shape.architecture;
  return others == 0 ? model_text(flags.size.value_or(kPlannedSize), one.shape) + ", "
         : architecture == lm::ModelShape{}.architecture ? ""
                                                         : fmt::format("{}, ", name_of(architecture));
}

std::string work_text(const PlanOptions& options, const lm::BenchCase& one) {
  return fmt::format("{}{} parameters, batch {} of {} tokens, {}", model_of(options, one),
                     grouped(lm::parameter_count(one.shape, options.network)), one.batch, one.shape.context,
                     name_of(one.precision));
}

std::string pipeline_text(const lm::SharedStep& step) {
  return fmt::format("{}, {} micro-batch{} of {}; memory of the fullest stage, time of the slowest",
                     lm::stages_text(step.one.shape.layers, step.mesh.pipeline), step.micro_batches,
                     step.micro_batches == 1 ? "" : "es", counted(step.one.batch / step.micro_batches, "sequence"));
}

Table settings_table(const std::string& work, const lm::SharedStep& step, const PlanMachine& machine) {
  Table table{"Work and machine", {left("setting"), left("value")}, {{"work", work}}};
  if (step.mesh.pipeline > 1) table.cells.push_back({"pipeline", pipeline_text(step)});
  table.cells.push_back({"machine", machine.name});
  table.cells.push_back({"device", machine.compute});
  table.cells.push_back({"links", machine.links.empty() ? "none needed" : machine.links});
  return table;
}

std::optional<double> bucket_of(const PlanOptions& options) {
  if (!options.bucket_mb) return {};
  return 1e6 * *options.bucket_mb;
}

Json memory_json(const lm::DeviceMemory& memory) {
  return Json::object({{"weights", memory.weights},
                       {"gradients", memory.gradients},
                       {"optimizer", memory.optimizer},
                       {"activations", memory.activations},
                       {"other", memory.other},
                       {"total", memory.total()}});
}

Json time_json(const lm::StepTime& time) {
  return Json::object({{"forward", time.forward},
                       {"backward", time.backward},
                       {"update", time.update},
                       {"forward_exchange", time.forward_exchange},
                       {"backward_exchange", time.backward_exchange},
                       {"exposed", time.exposed},
                       {"gather", time.gather},
                       {"tensor", time.tensor},
                       {"bubble", time.bubble},
                       {"pipeline", time.pipeline},
                       {"step", time.step()}});
}

Json mesh_json(const lm::Mesh& mesh) {
  return Json::object(
      {{"data", mesh.data}, {"shard", mesh.shard}, {"tensor", mesh.tensor}, {"pipeline", mesh.pipeline}});
}

Json row_json(const PlanOptions& options, const lm::SharedStep& step, const PlanMachine& machine) {
  const lm::BenchCase& one = step.one;
  const lm::Mesh& mesh = step.mesh;
  const std::optional<double> bucket = bucket_of(options);
  const lm::StepTime time = lm::step_time(step, machine.machine, bucket);
  const lm::DeviceMemory memory = lm::device_memory(
      step, workspace_of(options, one), static_cast<std::size_t>(lm::bucket_bytes_of(step, machine.machine, bucket)));
  const double bytes = machine.machine.memory_bytes;
  const auto tokens = static_cast<double>(one.batch * one.shape.context * mesh.batches());
  return Json::object({{kVersionKey, kRowVersion},
                       {"kind", "plan"},
                       {"work", work_text(options, one)},
                       {"machine", machine.text()},
                       {"network", name_of(step.network)},
                       {"arch", name_of(one.shape.architecture)},
                       {"parameters", lm::parameter_count(one.shape, step.network)},
                       {"context", one.shape.context},
                       {"batch", one.batch},
                       {"precision", name_of(one.precision)},
                       {"devices", mesh.devices()},
                       {"mesh", mesh_json(mesh)},
                       {"micro_batches", step.micro_batches},
                       {"sharding", name_of(step.sharding)},
                       {"memory_bytes", memory_json(memory)},
                       {"device_memory_bytes", bytes > 0 ? Json(bytes) : Json()},
                       {"time_s", time_json(time)},
                       {"computing_share", time.computing() / time.step()},
                       {"tokens_per_s", tokens / time.step()},
                       {"sent_bytes", Json::object({{"inside", time.inside}, {"between", time.between}})},
                       {"calls", time.calls},
                       {"call_bytes", time.call_bytes},
                       {"hides", time.hides()},
                       {"least_batch", lm::least_batch(step, machine.machine, bucket)}});
}

Json machine_json(const PlanMachine& machine) {
  const lm::Machine& figures = machine.machine;
  const auto link = [](const lm::Link& one) {
    return Json::object({{"bandwidth_bytes_per_s", one.bandwidth}, {"latency_s", one.latency}});
  };
  return Json::object({{"name", machine.name},
                       {"device", machine.compute},
                       {"links", machine.links},
                       {"flop_per_s", figures.flop_rate},
                       {"memory_bandwidth_bytes_per_s", figures.memory_bandwidth},
                       {"memory_bytes", figures.memory_bytes},
                       {"devices_per_node", figures.node},
                       {"inside", link(figures.inside)},
                       {"between", link(figures.between)}});
}

// Writes the rows to `output` and documents next to it, such as plan.md, plan-time.svg and plan-memory.svg, together.
void write_plan(const std::string& output, const std::vector<Json>& rows, const lm::SharedStep& first,
                const PlanMachine& machine) {
  std::vector<Table> tables = report::plan_tables(rows);
  tables.insert(tables.begin(), settings_table(rows[0].at("work").as_string(), first, machine));
  std::vector<Chart> charts;
  for (report::Figure& figure : report::plan_figures(rows)) {
    charts.push_back({.suffix = "-" + figure.id, .figure = std::move(figure)});
  }
  Json items = Json::array();
  for (const Json& row : rows) items.push_back(row);
  const Json document =
      Json::object({{"environment", environment_json()}, {"machine", machine_json(machine)}, {"rows", items}});
  const std::vector<WrittenFile> earlier = charts_of_document(output, kPlanTitle);
  FileSet files("--output");
  files.add(output, document.dump(1) + "\n");
  const std::vector<std::string> written = add_documents(files, output, kPlanTitle, charts, tables);
  files.commit();
  remove_other_charts(output, earlier, written);
  print(tables_text(tables));
  print(fmt::format("written: {}, {}\n", output, fmt::join(written, ", ")));
}

}  // namespace

int run_plan(Arguments arguments) {
  PlanOptions options;
  OptionTable table = plan_option_table(options);
  table.check_with([&] { refuse_idle_flags(options); });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kPlanIntroduction + table.help());
    return kFine;
  }
  if (!options.checks.empty()) return check_plan(options);
  const std::string output = options.output.value_or("plan.json");
  if (std::filesystem::path(output).extension() != ".json") {
    fail(ErrorCode::invalid_argument, "--output {}: valid: a file that ends in .json", printable_value(output));
  }
  const std::vector<lm::SharedStep> steps = planned_steps(options);
  check_default(output, "plan.json", "\"environment\"");
  check_documents(output, kPlanTitle);
  { const AtomicFile trial(output, "--output"); }  // throws before measuring if the output cannot be written
  const PlanMachine machine = plan_machine(options.machine, steps[0].one.precision, steps.back().mesh.devices());
  std::vector<Json> rows;
  for (const lm::SharedStep& step : steps) rows.push_back(row_json(options, step, machine));
  write_plan(output, rows, steps[0], machine);
  return kFine;
}

}  // namespace strobe::cli
