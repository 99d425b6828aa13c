// Defines the flags of `strobe plan` and builds the device meshes. The number of devices determines the mesh dimensions
// that --mesh does not give.
#include "cli/plan/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "app/common_options.h"
#include "cli/lm/bench_options.h"
#include "core/divide.h"
#include "core/fail.h"
#include "core/printable.h"
#include "lm/plan/machine.h"

namespace strobe::cli {
std::vector<std::string> machine_names() {
  std::vector<std::string> names{"here"};
  for (const lm::KnownMachine& machine : lm::known_machines()) names.emplace_back(machine.name);
  return names;
}

namespace {

constexpr std::int64_t kMostDevices = 1 << 24;
constexpr std::int64_t kFirst = 8, kLast = 16384;
constexpr double kLeastShare = 1e-6;  // lower bound of --mfu

MeshFlag parse_mesh(std::string_view flag, std::string_view value) {
  MeshFlag mesh{.data = {}, .shard = {}, .tensor = {}, .pipeline = {}, .text = std::string(value)};
  for (const std::string& part : split(value, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view word = std::string_view(part).substr(0, equals);
    std::optional<std::int64_t>* const target = word == "data"       ? &mesh.data
                                                : word == "shard"    ? &mesh.shard
                                                : word == "tensor"   ? &mesh.tensor
                                                : word == "pipeline" ? &mesh.pipeline
                                                                     : nullptr;
    if (!target || equals == std::string::npos) {
      fail(ErrorCode::invalid_argument,
           "{} {}: {}: valid: data=N, shard=N, tensor=N and pipeline=N, separated by commas", flag,
           printable_value(value), printable_value(part));
    }
    if (*target) refuse_repeat(flag, value, word);
    *target = parse_integer(fmt::format("{} {}: {}", flag, printable_value(value), word),
                            std::string_view(part).substr(equals + 1), 1, kMostDevices);
  }
  return mesh;
}

double parse_share(std::string_view flag, std::string_view value) {
  double share = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), share);
  if (code != std::errc() || end != value.data() + value.size() || !(share >= kLeastShare && share <= 1)) {
    fail(ErrorCode::invalid_argument, "{} {}: valid: {:g} to 1", flag, printable_value(value), kLeastShare);
  }
  return share;
}

void add_machine_options(OptionTable& table, MachineFlags& flags) {
  const auto number = [&](const char* name, const char* unit, const char* help, std::optional<double>& target,
                          double least = 1e-9) { table.add(name, unit, help, number_into(target, least, 1e12)); };
  const auto count = [&](const char* name, const char* help, std::optional<std::int64_t>& target) {
    table.add(name, "N", help, integer_into(target, 1, kMostDevices));
  };
  table.begin_group("machine");
  table.add("machine", "NAME",
            "a100, h100, h200 (data sheets), or here (measured); default h100; the flags below override it",
            word_into(flags.name, machine_names()));
  number("flops", "TFLOP/s", "peak matmul rate of a device in this precision", flags.flops);
  table.add("mfu", "SHARE", "share of --flops that a step reaches, 1e-6 to 1; default 0.4",
            into(flags.mfu, parse_share));
  table.add(make_file_option(
      "bench", "rows of strobe lm bench, whose rates replace --flops, --mfu and --memory-bandwidth", flags.bench));
  number("memory-bandwidth", "GB/s", "memory bandwidth of a device, read plus written", flags.memory_bandwidth);
  number("memory", "GiB", "memory of a device", flags.memory);
  number("bandwidth", "GB/s", "bus bandwidth of a device's link, each way", flags.bandwidth);
  number("latency", "US", "latency of a round of messages", flags.latency, 0);
  table.add(make_file_option("comm", "rows of strobe comm: bandwidth and latency fitted to them", flags.comm));
  count("ranks", "use rows of --comm with this number of ranks; default: the largest", flags.ranks);
  table.add("comm-from", "SIZE", "use rows of --comm with at least this many bytes, such as 4M; default all",
            into(flags.comm_from, parse_bytes));
  count("devices-per-node", "devices of a node, which the links above connect; default: the machine's, or all",
        flags.node);
  number("node-bandwidth", "GB/s", "bandwidth of a device to other nodes, each way", flags.node_bandwidth);
  number("node-latency", "US", "latency of a round of messages between nodes", flags.node_latency, 0);
  table.add(make_threads_option("CPU threads that --machine here measures with", flags.threads));
}

std::vector<std::int64_t> devices_of(const PlanOptions& options) {
  const MeshFlag& mesh = options.mesh;
  std::int64_t product = 1;  // product of the given dimensions
  for (const std::optional<std::int64_t>& part : {mesh.data, mesh.shard, mesh.tensor, mesh.pipeline}) {
    product *= part.value_or(1);
    if (product > kMostDevices) {
      fail(ErrorCode::invalid_argument, "--mesh {}: has more than {} devices; valid: at most that many", mesh.text,
           kMostDevices);
    }
  }
  if (mesh.data) {
    for (const std::int64_t wanted : options.devices) {
      if (wanted != product) {
        fail(ErrorCode::invalid_argument,
             "--mesh {0}: has {1} devices, but --devices is {2}; valid: --devices {1}, or a mesh without data",
             mesh.text, product, wanted);
      }
    }
    return {product};
  }
  if (!options.devices.empty()) return options.devices;
  std::vector<std::int64_t> devices{round_up(kFirst, product)};
  while (2 * devices.back() <= kLast) devices.push_back(2 * devices.back());
  return devices;
}

lm::Mesh mesh_for(const PlanOptions& options, std::int64_t devices, lm::Sharding sharding) {
  const MeshFlag& flag = options.mesh;
  const std::int64_t tensor = flag.tensor.value_or(1), stages = flag.stages(), copy = tensor * stages;
  const bool splits = sharding != lm::Sharding::replicated;
  const std::int64_t named = splits ? flag.shard.value_or(1) * copy : copy;
  if (devices % named != 0) {
    fail(ErrorCode::invalid_argument, "--mesh {0}: {1} does not divide --devices {2}; valid: multiples of {1}",
         flag.text, named, devices);
  }
  const std::int64_t shard = splits ? flag.shard.value_or(flag.data ? 1 : devices / copy) : 1;
  return {.data = devices / (shard * copy), .shard = shard, .tensor = tensor, .pipeline = stages};
}

std::vector<lm::Sharding> shardings_of(const PlanOptions& options) {
  const bool splits = !options.mesh.data || options.mesh.shard.value_or(1) > 1;
  for (const lm::Sharding sharding : options.shardings) {
    if (sharding != lm::Sharding::replicated && !splits) {
      fail(ErrorCode::invalid_argument, "--sharding {}: --mesh {} has no ranks to shard over; valid: shard=2 or more",
           name_of(sharding), options.mesh.text);
    }
  }
  if (!options.shardings.empty()) return options.shardings;
  if (!splits) return {lm::Sharding::replicated};
  return {lm::Sharding::replicated, lm::Sharding::optimizer, lm::Sharding::gradients, lm::Sharding::weights};
}

}  // namespace

OptionTable plan_option_table(PlanOptions& options) {
  OptionTable table;
  table.begin_group("model");
  add_shape_options(table, options.shape, kPlannedSize);
  table.add("network", "NAME",
            "decoder, or feed-forward: blocks of two matrices and nothing else, by default d_model 16384, d_ff "
            "53248, 126 layers; default decoder",
            word_into(options.network, lm::network_names(), lm::network_of));
  table.add("batch", "N", "sequences per device, or per group of devices that share layers; default 8",
            integer_into(options.batch, 1, 1 << 20));
  table.add("precision", "NAME", "fp32, tf32, bf16, fp16; default bf16",
            word_into(options.precision, lm::precision_names(), lm::precision_of));
  table.begin_group("devices");
  table.add("devices", "N[,N]", "default: 8, rounded up to a multiple of the mesh, and its doubles up to 16384",
            [&](auto flag, auto value) {
              options.devices =
                  parse_list(flag, value, [](auto of, auto word) { return parse_integer(of, word, 1, kMostDevices); });
              std::sort(options.devices.begin(), options.devices.end());
            });
  table.add("mesh", "data=N,shard=N,tensor=N,pipeline=N",
            "sizes of mesh dimensions; default: tensor 1, pipeline 1, shard all devices if anything is sharded, data "
            "the rest",
            into(options.mesh, parse_mesh));
  table.add("micro-batches", "N", "micro-batches per step of a pipeline; default: one per sequence",
            integer_into(options.micro_batches, 1, 1 << 20));
  table.add("sharding", "A,B", "replicated, optimizer (ZeRO-1), gradients (ZeRO-2), weights (ZeRO-3); default all",
            [&](auto flag, auto value) {
              options.shardings = parse_list(flag, value, [](auto of, auto word) {
                return lm::sharding_of(parse_word(of, word, lm::sharding_names()));
              });
            });
  table.add("bucket-mb", "N", "MB of gradients per call; default: the fastest",
            number_into(options.bucket_mb, 0.001, 1e9));
  add_machine_options(table, options.machine);
  table.begin_group("output");
  table.add("check", "FILE[,FILE]", "compare predictions with rows of strobe lm bench and comm; no plan",
            [&](auto flag, auto value) {
              options.checks = parse_list(flag, value, [](auto of, auto file) { return parse_text(of, file); });
            });
  table.add("output", "FILE", "JSON; .md and .svg have the same name; default plan.json",
            into(options.output, parse_text));
  return table;
}

void refuse_idle_flags(const PlanOptions& options) {
  const ShapeFlags& shape = options.shape;
  const MachineFlags& machine = options.machine;
  const bool plans = options.checks.empty(), fits = !machine.comm.empty();
  const bool has_nodes = machine.node || machine.name != "here";
  const char *const of_a_plan = "without --check", *const of_a_fit = "with --comm FILE",
                    *const of_nodes = "with --devices-per-node N", *const of_decoder = "with --network decoder";
  const bool decodes = options.network == lm::Network::decoder;
  const struct {
    const char* flag;
    bool given, counts;
    const char* valid;
  } flags[] = {
      {"--size", shape.size.has_value(), plans, of_a_plan},
      {"--arch", shape.architecture.has_value(), plans && decodes, plans ? of_decoder : of_a_plan},
      {"--context", shape.numbers.has("context"), plans, of_a_plan},
      {"--d-model", shape.numbers.has("d_model"), plans, of_a_plan},
      {"--d-ff", shape.numbers.has("d_ff"), plans, of_a_plan},
      {"--layers", shape.numbers.has("layers"), plans, of_a_plan},
      {"--heads", shape.numbers.has("heads"), plans && decodes, plans ? of_decoder : of_a_plan},
      {"--vocabulary", shape.numbers.has("vocabulary"), plans && decodes, plans ? of_decoder : of_a_plan},
      {"--network", !decodes, plans, of_a_plan},
      {"--batch", options.batch.has_value(), plans, of_a_plan},
      {"--precision", options.precision.has_value(), plans, "without --check, whose rows have their own"},
      {"--devices", !options.devices.empty(), plans, of_a_plan},
      {"--mesh", !options.mesh.text.empty(), plans, of_a_plan},
      {"--micro-batches", options.micro_batches.has_value(), plans && options.mesh.stages() > 1,
       plans ? "with --mesh pipeline=2 or more" : of_a_plan},
      {"--sharding", !options.shardings.empty(), plans, of_a_plan},
      {"--bucket-mb", options.bucket_mb.has_value(), plans, of_a_plan},
      {"--output", options.output.has_value(), plans, of_a_plan},
      {"--memory", machine.memory.has_value(), plans, of_a_plan},
      {"--devices-per-node", machine.node.has_value(), plans, of_a_plan},
      {"--mfu", machine.mfu.has_value(), machine.bench.empty(), "without --bench, whose rows have it"},
      {"--ranks", machine.ranks.has_value(), fits, of_a_fit},
      {"--comm-from", machine.comm_from.has_value(), fits, of_a_fit},
      {"--node-bandwidth", machine.node_bandwidth.has_value(), plans && has_nodes, plans ? of_nodes : of_a_plan},
      {"--node-latency", machine.node_latency.has_value(), plans && has_nodes, plans ? of_nodes : of_a_plan},
  };
  for (const auto& [flag, given, counts, valid] : flags) {
    if (given && !counts) fail(ErrorCode::invalid_argument, "{}: has no effect here; valid: {}", flag, valid);
  }
}

namespace {

lm::ModelShape planned_shape(const PlanOptions& options) {
  const ShapeFlags& flags = options.shape;
  if (options.network == lm::Network::decoder) return shape_from(flags, lm::shape_of(kPlannedSize));
  lm::ModelShape shape = flags.size ? lm::shape_of(*flags.size) : kFeedForwardShape;
  flags.numbers.apply_to(shape);
  return shape;
}

}  // namespace

std::vector<lm::SharedStep> planned_steps(const PlanOptions& options) {
  const lm::BenchCase one{.shape = planned_shape(options),
                          .batch = options.batch.value_or(8),
                          .precision = options.precision.value_or(lm::Precision::bf16)};
  const std::int64_t stages = options.mesh.stages();
  lm::SharedStep step{.one = one, .network = options.network};
  step.micro_batches = options.micro_batches.value_or(stages > 1 ? one.batch : 1);
  step.mesh = {.tensor = options.mesh.tensor.value_or(1), .pipeline = stages};
  lm::check(step);
  const std::vector<lm::Sharding> shardings = shardings_of(options);
  std::vector<lm::SharedStep> steps;
  for (const std::int64_t devices : devices_of(options)) {
    for (const lm::Sharding sharding : shardings) {
      step.mesh = mesh_for(options, devices, sharding);
      step.sharding = sharding;
      steps.push_back(step);
    }
  }
  return steps;
}

}  // namespace strobe::cli
