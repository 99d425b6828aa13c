// Flags of `strobe plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "cli/lm/shape_options.h"
#include "lm/plan/device_memory.h"
#include "lm/plan/mesh.h"

namespace strobe::cli {

// Directions that were named; the others follow from the number of devices.
struct MeshFlag {
  std::optional<std::int64_t> data, shard, tensor, pipeline;

  std::int64_t stages() const { return pipeline.value_or(1); }
  std::string text;  // as it was given
};

// Figures of the machine in the units of the flags; each that was given replaces the named machine's.
struct MachineFlags {
  std::string name = "h100";
  std::optional<double> flops, memory_bandwidth, memory;                   // TFLOP/s, GB/s, GiB
  std::optional<double> mfu;                                               // of it, what a step's products reach
  std::string comm, bench;                                                 // result files; none: ""
  std::optional<std::int64_t> comm_from;                                   // bytes, of the rows in comm
  std::optional<std::int64_t> ranks;                                       // of the rows in comm; none: the most
  std::optional<double> bandwidth, latency, node_bandwidth, node_latency;  // GB/s, us
  std::optional<std::int64_t> node;                                        // devices of one
  std::optional<int> threads;
};

struct PlanOptions {
  ShapeFlags shape;
  lm::Network network = lm::Network::decoder;
  std::optional<std::int64_t> batch;       // none: 8
  std::optional<lm::Precision> precision;  // none: bf16; of rows that are checked their own
  std::vector<std::int64_t> devices;       // none: 8 to 16,384, in steps that the mesh divides
  MeshFlag mesh;
  std::optional<std::int64_t> micro_batches;  // none: one sequence each, with a pipeline
  std::vector<lm::Sharding> shardings;        // none: all that the mesh has
  std::optional<double> bucket_mb;
  MachineFlags machine;
  std::vector<std::string> checks;
  std::optional<std::string> output;  // none: plan.json
};

inline constexpr const char* kPlannedSize = "xl";  // without --size

// The feed-forward model of the source's exercise, without --size.
inline constexpr lm::ModelShape kFeedForwardShape{.d_model = 16384, .d_ff = 53248, .layers = 126};

std::vector<std::string> machine_names();  // that --machine takes

OptionTable plan_option_table(PlanOptions& options);

// Throws Error(invalid_argument) for a flag that changes nothing beside the others.
void refuse_idle_flags(const PlanOptions& options);

// Every number of devices with every sharding, in this order. Throws Error(invalid_argument) in one line for a mesh
// that the devices or the model do not allow.
std::vector<lm::SharedStep> planned_steps(const PlanOptions& options);

}  // namespace strobe::cli
