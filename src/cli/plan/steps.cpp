// Reads measured steps and collectives from result files.
#include "cli/plan/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/lm/bench_options.h"
#include "core/counted.h"
#include "core/fail.h"
#include "device/host/thread_pool.h"
#include "lm/plan/device_memory.h"
#include "lm/plan/step_time.h"

namespace strobe::cli {
namespace {

constexpr std::string_view kSingleProcess = "one process";  // value of "strategy" in the row that one process measured
constexpr Range kStepFlops{1, 1e30, false, "FLOP"}, kParameters{1, 1e15, false, "parameters"};

bool is_parallel_step(const Json& row) { return says(row, "kind", "data parallel step"); }

bool recomputes(const Json& row) { return row.find("recompute") && !says(row, "recompute", "none"); }

std::int64_t whole_number(const Json& row, const char* key, std::int64_t most) {
  const std::int64_t value = row.at(key).as_integer();
  if (value < 1 || value > most) fail(ErrorCode::invalid_argument, "{} {}; valid: 1 to {}", key, value, most);
  return value;
}

// Parses the fields that rows with and without --ddp share.
LmBenchCell cell_of(const Json& row, const char* threads) {
  const std::string& size = row.at("size").as_string();
  lm::BenchCase one{.shape = lm::shape_of(size),
                    .batch = whole_number(row, "batch", 1 << 20),
                    .precision = lm::precision_of(row.at("precision").as_string())};
  if (const Json* arch = row.find("arch")) one.shape.architecture = lm::architecture_of(arch->as_string());
  for (const Field<lm::ModelShape>& field : fields<lm::ModelShape>()) {
    const Json* value = field.key == "context" ? &row.at(field.key) : row.find(field.key);
    if (value) field.read(one.shape, *value);
  }
  lm::check(one.shape);
  if (const Json* recompute = row.find("recompute")) one.recompute = lm::recompute_of(recompute->as_string());
  one.execution.threads = static_cast<int>(whole_number(row, threads, kMaxThreads));
  return {size, one};
}

bool on_cpu(const Json& row) { return says(row, "device", "cpu"); }  // a GPU's workspace is known only on that GPU

PhaseSeconds phases_of(const Json& row) {
  if (is_parallel_step(row)) {
    return {seconds_of(row, "part_forward"), seconds_of(row, "part_backward"), seconds_of(row, "part_optimizer")};
  }
  return {seconds_of(row, "forward"), seconds_of(row, "backward"), seconds_of(row, "update")};
}

// Returns the FLOPs of forward and backward.
double flops_in(const Json& row) {
  return is_parallel_step(row) ? lm::flops_of(cell_of(row, "threads_per_rank").one)
                               : figure_in(row, "flop", kStepFlops);
}

MeasuredStep single_process_step(const Json& row) {
  LmBenchCell cell = cell_of(row, "threads");
  const std::string& attention = row.at("attention").as_string();
  cell.one.attention = attention == "auto" ? "" : attention;
  cell.one.execution.deterministic = row.at("deterministic").as_bool();
  MeasuredStep step{.title = title_of(cell), .shared = {.one = cell.one}, .phases = phases_of(row)};
  if (row.at("pass").as_string() != "step") return step;
  step.whole = seconds_of(row, "whole");
  if (!on_cpu(row)) return step;
  step.bytes = figure_in(row.at("whole"), "peak_bytes", kBytesRange);
  step.workspace = lm::predicted_workspace(cell.one);
  return step;
}

// Treats each rank as a device with its share of the batch. A sharded strategy shards over all ranks.
void take_exchange(const Json& row, MeasuredStep& step) {
  const std::int64_t ranks = whole_number(row, "ranks", 1 << 20);
  const lm::Strategy& strategy = lm::strategy_of(row.at("strategy").as_string());
  lm::BenchCase& one = step.shared.one;
  if (one.batch % ranks != 0) {
    fail(ErrorCode::invalid_argument, "batch {} on {} ranks; valid: a multiple of the ranks", one.batch, ranks);
  }
  one.batch /= ranks;
  const bool splits = strategy.updates != lm::Updates::all;
  step.shared.mesh = splits ? lm::Mesh{.shard = ranks} : lm::Mesh{.data = ranks};
  step.shared.sharding = strategy.updates == lm::Updates::all     ? lm::Sharding::replicated
                         : strategy.updates == lm::Updates::share ? lm::Sharding::optimizer
                                                                  : lm::Sharding::gradients;
  step.start = strategy.start;
  step.title += fmt::format(", {}", strategy.name);
  if (const Json* bucket = row.find("bucket_bytes"); bucket && bucket->is_number()) {
    step.title += fmt::format(" of {} MB", 1e-6 * bucket->as_number());
  }
  step.title += ", " + counted(ranks, "rank");
  if (ranks == 1) return;
  // Chooses the bucket size that gives the row's number of buckets. The factor is above 1, so rounding adds no bucket.
  const auto calls = static_cast<double>(whole_number(row, "buckets", 1 << 20));
  step.bucket_bytes = (1 + 1e-9) * sizeof(float) * static_cast<double>(lm::parameter_count(one.shape)) / calls;
  // If the whole exchange was overlapped, there is no exposed time to compare.
  if (row.at("part_exposed").at("median_s").as_number() != 0) step.exposed = seconds_of(row, "part_exposed");
}

MeasuredStep parallel_step(const Json& row) {
  const LmBenchCell cell = cell_of(row, "threads_per_rank");
  MeasuredStep step{
      .title = title_of(cell), .shared = {.one = cell.one}, .phases = phases_of(row), .whole = seconds_of(row, "step")};
  step.shared.one.gradients = lm::GradientMemory::shared;
  if (says(row, "strategy", kSingleProcess)) {
    step.title += fmt::format(", {}", kSingleProcess);
  } else {
    take_exchange(row, step);
  }
  // sharded-rs keeps complete gradients in addition to its share, which plans do not model.
  if (on_cpu(row) && step.shared.sharding <= lm::Sharding::optimizer) {
    step.bytes = figure_in(row.at("memory"), "after_step_bytes", kBytesRange);
  }
  return step;
}

}  // namespace

bool is_step(const Json& row) {
  return row.is_object() && (row.find("whole") || (is_parallel_step(row) && says(row, "status", "ok")));
}

MeasuredStep measured_step(const Json& row) {
  return is_parallel_step(row) ? parallel_step(row) : single_process_step(row);
}

StepRates step_rates(const std::string& path, lm::Precision precision) {
  StepRates rates;
  each_row_of_file(path, [&](const Json& row) {
    if (!says(row, "precision", name_of(precision)) || !says(row, "status", "ok")) return;
    if (is_parallel_step(row) && !says(row, "strategy", kSingleProcess)) return;
    const PhaseSeconds phases = phases_of(row);
    if (!phases.forward || !phases.backward) return;
    if (!recomputes(row)) rates.flops.push_back(flops_in(row) / (*phases.forward + *phases.backward));
    if (!phases.update) return;
    rates.update.push_back(figure_in(row, "parameters", kParameters) * lm::update_bytes(precision) / *phases.update);
  });
  if (rates.flops.empty()) {
    fail(ErrorCode::invalid_argument,
         "--bench {}: no step in {} with times; valid: rows of strobe lm bench that recompute nothing", path,
         name_of(precision));
  }
  return rates;
}

bool says(const Json& row, const char* key, std::string_view value) {
  const Json* found = row.is_object() ? row.find(key) : nullptr;
  return found && found->is_string() && found->as_string() == value;
}

double figure_in(const Json& row, const char* key, const Range& range) {
  return checked_number(key, row.at(key), range);
}

std::optional<double> seconds_of(const Json& row, const char* phase) {
  const Json* times = row.find(phase);
  if (!times || !times->is_object()) return {};
  return figure_in(*times, "median_s", kSecondsRange);
}

bool is_collective(const Json& row) { return says(row, "kind", "collective"); }

std::optional<lm::LinkSample> link_sample(const Json& row) {
  if (!is_collective(row) || !says(row, "status", "ok") || !row.find("statistics")) return {};
  for (const comm::Kind kind : {comm::Kind::all_reduce, comm::Kind::reduce_scatter, comm::Kind::all_gather}) {
    if (!says(row, "operation", comm::name_of(kind))) continue;
    const std::int64_t ranks = row.at("ranks").as_integer();
    if (ranks < 2 || ranks > 1 << 20) return {};
    return lm::LinkSample{kind, ranks, figure_in(row, "bytes", kBytesRange),
                          figure_in(row.at("statistics"), "median_s", kSecondsRange)};
  }
  return {};
}

std::vector<lm::LinkSample> link_samples(const std::string& path, std::optional<std::int64_t> ranks) {
  std::vector<lm::LinkSample> found;
  std::set<std::string> kinds;
  std::set<std::int64_t> all;
  std::int64_t wanted = ranks.value_or(0);
  each_row_of_file(path, [&](const Json& row) {
    const std::optional<lm::LinkSample> sample = link_sample(row);
    if (!sample) return;
    all.insert(sample->ranks);
    kinds.insert(row.at("engine").as_string() + " " + row.at("memory").as_string());
    found.push_back(*sample);
    if (!ranks) wanted = std::max(wanted, sample->ranks);
  });
  if (all.empty()) {
    fail(ErrorCode::invalid_argument, "--comm {}: no times of collectives between ranks; valid: rows of strobe comm",
         path);
  }
  if (kinds.size() > 1) {
    fail(ErrorCode::invalid_argument, "--comm {}: rows of {}; valid: rows of one engine and memory", path,
         fmt::join(kinds, " and "));
  }
  if (!all.contains(wanted)) {
    fail(ErrorCode::invalid_argument, "--ranks {}: --comm {} has rows of {}", wanted, path, fmt::join(all, ", "));
  }
  std::erase_if(found, [&](const lm::LinkSample& sample) { return sample.ranks != wanted; });
  return found;
}

}  // namespace strobe::cli
