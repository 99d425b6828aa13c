// SharedStep describes a training step that several devices share. The functions compute parameters, FLOPs and
// activations of each pipeline stage; a step without a pipeline has one stage. device_memory.h and step_time.h use
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lm/plan/bench_case.h"
#include "lm/plan/mesh.h"

namespace strobe::lm {

enum class Network {
  decoder,       // the whole architecture of the shape
  feed_forward,  // only blocks of two matrices [d_ff, d_model] and [d_model, d_ff] with an activation between them
};

std::vector<std::string> network_names();  // decoder, feed-forward
const char* name_of(Network network);
Network network_of(std::string_view name);  // throws Error(invalid_argument) for an unknown name

// A training step on a mesh. one.batch is the number of sequences per step that one tensor-parallel group processes.
// The groups of a pipeline's stages all process the same sequences. The batch is split into equal micro-batches.
struct SharedStep {
  BenchCase one;
  Mesh mesh{};
  Sharding sharding = Sharding::replicated;
  Network network = Network::decoder;
  std::int64_t micro_batches = 1;
};

// Throws Error(invalid_argument) if a dimension of the mesh is below 1 or the pipeline has more stages than layers.
// Also throws if tensor does not divide d_ff and, for a decoder, heads, or if the number of micro-batches does not
// divide the batch.
void check(const SharedStep& step);

std::int64_t parameter_count(const ModelShape& shape, Network network);

// A stage of a pipeline. If the number of stages does not divide the layers, the first stages have one layer more.
struct Stage {
  std::int64_t layers = 0;
  std::int64_t in_flight = 1;           // micro-batches with live activations in the 1F1B schedule
  bool embeds = true, unembeds = true;  // the first stage embeds, the last one unembeds
};

// Returns the stages that can be the slowest or need the most memory: the first two, the last, and the first with one
// layer less.
std::vector<Stage> stages_of(const SharedStep& step);

// Returns a text such as "4 stages of 12 layers" or "2 stages of 13 layers, 2 of 12".
std::string stages_text(std::int64_t layers, std::int64_t stages);

// Number of parameters on one device of a stage. embedding, block and end are the units in which sharded parameters are
// gathered.
struct StageParameters {
  std::int64_t embedding = 0, block = 0, end = 0;  // embedding with positions; one block; last norm and unembedding
  std::int64_t layers = 0;
  std::int64_t last_gradient = 0;  // elements of the tensor whose gradient is computed last

  std::int64_t count() const { return embedding + layers * block + end; }
  std::int64_t units() const { return layers + (embedding > 0) + (end > 0); }
  std::int64_t largest_unit() const;
};
StageParameters parameters_of(const SharedStep& step, const Stage& stage);

// Returns the FLOPs of a stage's forward of the whole batch, summed over the devices of a tensor-parallel group.
double forward_flops(const SharedStep& step, const Stage& stage);

// Returns the number of all-reduces in a tensor-parallel group per micro-batch, in forward and backward together.
std::int64_t tensor_calls(const SharedStep& step, const Stage& stage);

// Returns the peak bytes of a stage's activations, without gradients of parameters. Every micro-batch in flight has
// saved activations for backward; one of them also has its output and the gradients of activations.
std::size_t stage_activations(const SharedStep& step, const Stage& stage);

}  // namespace strobe::lm
