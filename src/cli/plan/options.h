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

// Mesh dimensions that --mesh gives. The number of devices determines the others.
struct MeshFlag {
  std::optional<std::int64_t> data, shard, tensor, pipeline;

  std::int64_t stages() const { return pipeline.value_or(1); }
  std::string text;  // as given
};

// The machine's rates, in the units of the flags. A rate that a flag gives replaces that of the named machine.
struct MachineFlags {
  std::string name = "h100";
  std::optional<double> flops, memory_bandwidth, memory;  // TFLOP/s, GB/s, GiB
  std::optional<double> mfu;                              // share of `flops` that a step's matmuls reach
  std::string comm, bench;                                // result files; "": none
  std::optional<std::int64_t> comm_from;                  // bytes; rows of `comm` with smaller messages are not used
  std::optional<std::int64_t> ranks;  // rows of `comm` with another number are not used; nullopt: the largest
  std::optional<double> bandwidth, latency, node_bandwidth, node_latency;  // GB/s, us
  std::optional<std::int64_t> node;                                        // devices per node
  std::optional<int> threads;
};

struct PlanOptions {
  ShapeFlags shape;
  lm::Network network = lm::Network::decoder;
  std::optional<std::int64_t> batch;       // sequences; none: 8
  std::optional<lm::Precision> precision;  // none: bf16; for checked rows, the row's precision
  std::vector<std::int64_t> devices;       // empty: 8, rounded up to a multiple of the mesh, and its doubles to 16,384
  MeshFlag mesh;
  std::optional<std::int64_t> micro_batches;  // none: one sequence per micro-batch if there is a pipeline
  std::vector<lm::Sharding> shardings;        // none: all that the mesh allows
  std::optional<double> bucket_mb;
  MachineFlags machine;
  std::vector<std::string> checks;
  std::optional<std::string> output;  // none: plan.json
};

inline constexpr const char* kPlannedSize = "xl";  // default of --size

// The default shape of --network feed-forward: the dimensions of Llama 3.1 405B.
inline constexpr lm::ModelShape kFeedForwardShape{.d_model = 16384, .d_ff = 53248, .layers = 126};

std::vector<std::string> machine_names();  // values of --machine

OptionTable plan_option_table(PlanOptions& options);

// Throws Error(invalid_argument) if another flag makes a given flag ineffective.
void refuse_idle_flags(const PlanOptions& options);

// Combines every number of devices with every sharding, in this order. Throws Error(invalid_argument) for a mesh that
// the devices or the model do not allow.
std::vector<lm::SharedStep> planned_steps(const PlanOptions& options);

}  // namespace strobe::cli
