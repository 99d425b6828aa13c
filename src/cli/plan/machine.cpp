// Determines the machine of a plan from its name, result files, measurements and flags.
#include "cli/plan/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/common_options.h"
#include "bench/ceilings.h"
#include "cli/plan/steps.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "core/statistics.h"
#include "core/units.h"
#include "device/device_info.h"
#include "device/gpu_facts.h"

namespace strobe::cli {
namespace {

constexpr double kShareReached = 0.4;  // default of --mfu

std::string rate_text(double flops) {
  return flops >= 1e12 ? short_number(1e-12 * flops) + " TFLOP/s" : short_number(1e-9 * flops) + " GFLOP/s";
}

struct Peak {
  double flops = 0;
  std::string from;
};

// Returns null for the name `here`.
const lm::KnownMachine* known_machine(const std::string& name) {
  const auto known = lm::known_machines();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const lm::KnownMachine& one) { return name == one.name; });
  return found == known.end() ? nullptr : &*found;
}

// Returns the memory in bytes of the device that `lm bench` would use.
double memory_here() {
  if (!current_gpu().reason.empty()) return static_cast<double>(cpu_info().memory_bytes);
  return static_cast<double>(current_gpu_info().memory_bytes);
}

// Measures the matmul and copy rates of the device that `lm bench` would use. Sets the copy rate in `machine`.
Peak measure_here(const MachineFlags& flags, lm::Precision precision, lm::Machine& machine) {
  const bool on_gpu = current_gpu().reason.empty();
  const DType types[] = {dtype_of(precision)};
  const bool tf32 = precision == lm::Precision::tf32;
  if (tf32 && !on_gpu) {
    fail(ErrorCode::unsupported, "--machine here: tf32 needs a GPU; valid on the CPU: fp32, bf16, fp16");
  }
  const bench::Ceilings ceilings =
      on_gpu ? bench::measure_gpu_ceilings(types, tf32 ? bench::Depth::full : bench::Depth::brief)
             : bench::measure_ceilings(threads_of(flags.threads), types, bench::Depth::full);
  const std::optional<double> matmul = tf32 ? ceilings.tf32 : ceilings.matmul(types[0]);
  if (!matmul || !ceilings.copy) {
    fail(ErrorCode::runtime, "--machine here: {} could not be measured; give --flops and --memory-bandwidth",
         matmul ? "the copy rate" : "the matmul rate");
  }
  machine.memory_bandwidth = *ceilings.copy;
  return {*matmul,
          on_gpu ? "measured on this GPU" : "measured here on " + counted(threads_of(flags.threads), "thread")};
}

void take_compute(const MachineFlags& flags, lm::Precision precision, PlanMachine& plan) {
  lm::Machine& machine = plan.machine;
  const bool all_given = !flags.bench.empty() || (flags.flops && flags.memory_bandwidth);
  if (flags.flops && !flags.bench.empty()) {
    fail(ErrorCode::invalid_argument, "--bench {} and --flops {}: valid: one of them", flags.bench, *flags.flops);
  }
  Peak peak;
  if (const lm::KnownMachine* const known = known_machine(flags.name)) {
    peak = {known->peak(precision), "data sheet"};
  } else if (!all_given) {
    peak = measure_here(flags, precision, machine);
  }
  if (flags.flops) peak = {1e12 * *flags.flops, "given"};
  if (flags.memory_bandwidth) machine.memory_bandwidth = 1e9 * *flags.memory_bandwidth;
  if (flags.bench.empty()) {
    const double reached = flags.mfu.value_or(kShareReached);
    machine.flop_rate = reached * peak.flops;
    plan.compute = fmt::format("{} {}, {:.3g} % reached", rate_text(peak.flops), peak.from, 100 * reached);
  } else {
    const StepRates rates = step_rates(flags.bench, precision);
    machine.flop_rate = summarize(rates.flops).median;
    if (!flags.memory_bandwidth && !rates.update.empty()) machine.memory_bandwidth = summarize(rates.update).median;
    plan.compute = fmt::format("{}, the median of {} of lm bench", rate_text(machine.flop_rate),
                               counted(rates.flops.size(), "row"));
  }
  if (machine.memory_bandwidth <= 0) {
    fail(ErrorCode::invalid_argument, "--bench {}: no times of an update; give --memory-bandwidth GB/s", flags.bench);
  }
  plan.compute += fmt::format("; memory {} GB/s", short_number(1e-9 * machine.memory_bandwidth));
  if (machine.memory_bytes > 0) plan.compute += fmt::format(", {} GiB", short_number(machine.memory_bytes / kGiB));
}

void give(lm::Link& link, const std::optional<double>& bandwidth, const std::optional<double>& latency) {
  if (bandwidth) link.bandwidth = 1e9 * *bandwidth;
  if (latency) link.latency = 1e-6 * *latency;
}

std::string link_text(const lm::Link& link) {
  return fmt::format("{} GB/s and {} us", short_number(1e-9 * link.bandwidth), short_number(1e6 * link.latency));
}

void take_links(const MachineFlags& flags, std::int64_t devices, PlanMachine& plan) {
  lm::Machine& machine = plan.machine;
  if (!flags.comm.empty() && flags.bandwidth) {
    fail(ErrorCode::invalid_argument, "--comm {} and --bandwidth {}: valid: one of them", flags.comm, *flags.bandwidth);
  }
  std::string from;
  if (!flags.comm.empty()) {
    const auto from_bytes = static_cast<double>(flags.comm_from.value_or(0));
    std::vector<lm::LinkSample> samples = link_samples(flags.comm, flags.ranks);
    double most = 0;  // largest message in bytes
    for (const lm::LinkSample& one : samples) most = std::max(most, one.bytes);
    if (from_bytes > most) {
      fail(ErrorCode::invalid_argument, "--comm-from {}: --comm {} has rows of up to {} bytes; valid: at most that",
           *flags.comm_from, flags.comm, most);
    }
    std::erase_if(samples, [&](const lm::LinkSample& one) { return one.bytes < from_bytes; });
    try {
      machine.inside = lm::fit_link(samples);
    } catch (const Error& error) {
      fail(error.code(), "--comm {} from {} bytes on: {}", flags.comm, from_bytes, error.what());
    }
    from = fmt::format(" (fitted to {} of {})", counted(samples.size(), "row"), counted(samples.front().ranks, "rank"));
  }
  give(machine.inside, flags.bandwidth, flags.latency);
  give(machine.between, flags.node_bandwidth, flags.node_latency);
  machine.node = flags.node.value_or(machine.node);
  if (machine.node >= devices) machine.node = 0;  // all devices are in one node
  if (devices == 1) return;
  if (machine.inside.bandwidth <= 0) {
    fail(ErrorCode::invalid_argument,
         "--machine {}: no bandwidth between devices; give --comm FILE of strobe comm, or --bandwidth GB/s",
         flags.name);
  }
  if (machine.node > 0 && machine.between.bandwidth <= 0) {
    fail(ErrorCode::invalid_argument, "--devices-per-node {}: no bandwidth between nodes; give --node-bandwidth GB/s",
         machine.node);
  }
  plan.links = link_text(machine.inside) + from;
  if (machine.node > 0) {
    plan.links += fmt::format(" in nodes of {}, {} between", machine.node, link_text(machine.between));
  }
}

}  // namespace

std::string PlanMachine::text() const {
  std::string line = fmt::format("{}: {} per device", name, rate_text(machine.flop_rate));
  if (!links.empty()) line += fmt::format("; links {} GB/s", short_number(1e-9 * machine.inside.bandwidth));
  if (machine.node > 0) {
    line += fmt::format(" in nodes of {}, {} between", machine.node, short_number(1e-9 * machine.between.bandwidth));
  }
  return line;
}

PlanMachine plan_links(const MachineFlags& flags, std::int64_t devices) {
  const lm::KnownMachine* const known = known_machine(flags.name);
  PlanMachine plan{.machine = known ? known->machine : lm::Machine{.memory_bytes = memory_here()},
                   .name = flags.name,
                   .compute = {},
                   .links = {}};
  if (flags.memory) plan.machine.memory_bytes = kGiB * *flags.memory;
  take_links(flags, devices, plan);
  return plan;
}

PlanMachine plan_machine(const MachineFlags& flags, lm::Precision precision, std::int64_t devices) {
  PlanMachine plan = plan_links(flags, devices);
  take_compute(flags, precision, plan);
  return plan;
}

}  // namespace strobe::cli
