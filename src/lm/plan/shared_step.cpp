// Computes stages, parameters, FLOPs and activations of a shared training step.
#include "lm/plan/shared_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/counted.h"
#include "core/fail.h"
#include "lm/models/activations.h"
#include "lm/plan/device_memory.h"

namespace strobe::lm {

namespace {

constexpr const char* kNetworkNames[] = {"decoder", "feed-forward"};  // in the order of Network

constexpr double kMostActivationBytes = 0x1p60;

ModelShape shape_of(const SharedStep& step, const Stage& stage) {
  ModelShape shape = step.one.shape;
  shape.layers = stage.layers;
  return shape;
}

Stage stage_at(const SharedStep& step, std::int64_t index) {
  const std::int64_t stages = step.mesh.pipeline, layers = step.one.shape.layers;
  return {.layers = layers / stages + (index < layers % stages ? 1 : 0),
          .in_flight = std::min(step.micro_batches, stages - index),
          .embeds = index == 0,
          .unembeds = index == stages - 1};
}

StageParameters feed_forward_parameters(const SharedStep& step, const Stage& stage) {
  const std::int64_t matrix = step.one.shape.d_model * (step.one.shape.d_ff / step.mesh.tensor);
  return {.block = 2 * matrix, .layers = stage.layers, .last_gradient = matrix};
}

// Returns once + times * each, in bytes. Throws above 2^60.
std::size_t sum_of(const SharedStep& step, std::size_t once, std::size_t each, std::int64_t times) {
  if (static_cast<double>(once) + static_cast<double>(times) * static_cast<double>(each) > kMostActivationBytes) {
    fail(ErrorCode::invalid_argument, "lm: activations of batch {} of {} tokens take more than 2^60 bytes",
         step.one.batch, step.one.shape.context);
  }
  return once + static_cast<std::size_t>(times) * each;
}

// Returns the activation bytes of a stage of the feed-forward network. For each micro-batch in flight, each block saves
// its input and the input and output of its activation function. Three tensors exist once: the gradients of x and of
// the activation function's output, and the last block's output.
std::size_t feed_forward_activations(const SharedStep& step, const Stage& stage) {
  const ModelShape& shape = step.one.shape;
  const std::int64_t tokens = step.one.batch / step.micro_batches * shape.context;
  const std::int64_t wide = tokens * shape.d_model, hidden = tokens * (shape.d_ff / step.mesh.tensor);
  const std::size_t element = size_of(dtype_of(step.one.precision));
  const std::size_t saved = element * static_cast<std::size_t>(wide + 2 * hidden);
  return sum_of(step, element * static_cast<std::size_t>(2 * wide + hidden), saved, stage.in_flight * stage.layers);
}

}  // namespace

std::vector<std::string> network_names() { return {std::begin(kNetworkNames), std::end(kNetworkNames)}; }

const char* name_of(Network network) { return kNetworkNames[static_cast<int>(network)]; }

Network network_of(std::string_view name) {
  return static_cast<Network>(index_of_name("--network", name, kNetworkNames));
}

void check(const SharedStep& step) {
  const ModelShape& shape = step.one.shape;
  if (step.network == Network::decoder) {
    check(step.mesh, shape);
  } else {
    check_sizes(step.mesh);
    if (shape.d_ff % step.mesh.tensor != 0) {
      fail(ErrorCode::invalid_argument, "mesh tensor={}: does not divide d_ff {}; valid: a divisor of it",
           step.mesh.tensor, shape.d_ff);
    }
  }
  if (step.mesh.pipeline > shape.layers) {
    fail(ErrorCode::invalid_argument, "mesh pipeline={}: more stages than the model's {} layers; valid: 1 to {}",
         step.mesh.pipeline, shape.layers, shape.layers);
  }
  if (step.micro_batches < 1 || step.one.batch % step.micro_batches != 0) {
    fail(ErrorCode::invalid_argument, "{} micro-batches: do not divide a batch of {}; valid: a divisor of it",
         step.micro_batches, step.one.batch);
  }
}

std::int64_t parameter_count(const ModelShape& shape, Network network) {
  return network == Network::feed_forward ? 2 * shape.layers * shape.d_model * shape.d_ff : parameter_count(shape);
}

std::vector<Stage> stages_of(const SharedStep& step) {
  const std::int64_t stages = step.mesh.pipeline;
  std::vector<std::int64_t> indices = {0, 1, step.one.shape.layers % stages, stages - 1};
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  std::vector<Stage> found;
  for (const std::int64_t index : indices) {
    if (index < stages) found.push_back(stage_at(step, index));
  }
  return found;
}

std::string stages_text(std::int64_t layers, std::int64_t stages) {
  const std::int64_t more = layers % stages;
  if (more == 0) return fmt::format("{} of {}", counted(stages, "stage"), counted(layers / stages, "layer"));
  return fmt::format("{} of {}, {} of {}", counted(more, "stage"), counted(layers / stages + 1, "layer"), stages - more,
                     layers / stages);
}

std::int64_t StageParameters::largest_unit() const { return std::max({embedding, block, end}); }

StageParameters parameters_of(const SharedStep& step, const Stage& stage) {
  if (step.network == Network::feed_forward) return feed_forward_parameters(step, stage);
  const ModelShape shape = shape_of(step, stage);
  const std::vector<Parameter> table = parameters_of_a_device(shape, step.mesh.tensor);
  const auto first_of = [&](std::int64_t layer) {
    return table[first_parameter(shape.architecture, static_cast<std::size_t>(layer))].first;
  };
  return {.embedding = stage.embeds ? first_of(0) : 0,
          .block = first_of(1) - first_of(0),
          .end = stage.unembeds ? count_of(table) - first_of(stage.layers) : 0,
          .layers = stage.layers,
          .last_gradient = stage.embeds ? table[kEmbedding].count() : shape.d_model};
}

double forward_flops(const SharedStep& step, const Stage& stage) {
  const auto tokens = static_cast<double>(step.one.batch * step.one.shape.context);
  const auto d = static_cast<double>(step.one.shape.d_model);
  if (step.network == Network::feed_forward) {
    return 4 * tokens * d * static_cast<double>(step.one.shape.d_ff * stage.layers);
  }
  BenchCase part = step.one;
  part.shape = shape_of(step, stage);
  part.pass = BenchPass::forward;
  const double unembedding = 2 * tokens * d * static_cast<double>(part.shape.vocabulary);
  return flops_of(part) - (stage.unembeds ? 0 : unembedding);
}

std::int64_t tensor_calls(const SharedStep& step, const Stage& stage) {
  if (step.network == Network::feed_forward) return 2 * stage.layers;
  return 4 * stage.layers + (stage.embeds ? 1 : 0) + (stage.unembeds ? 1 : 0);
}

std::size_t stage_activations(const SharedStep& step, const Stage& stage) {
  if (step.network == Network::feed_forward) return feed_forward_activations(step, stage);
  const BenchCase& one = step.one;
  const ActivationPlan plan =
      activation_plan(shape_of(step, stage), one.batch / step.micro_batches, dtype_of(one.precision),
                      {.recompute = one.recompute,
                       .gradients = GradientMemory::own,
                       .attention = attention_memory_of(one.attention),
                       .parts = step.mesh.tensor});
  const std::size_t saved_from = plan.table[plan.blocks[0].x].first, saved_to = plan.table[plan.x].first;
  const std::size_t end = stage.unembeds ? plan.bytes : saved_to + plan.table[plan.x].bytes();
  return sum_of(step, end, saved_to - saved_from, stage.in_flight - 1);
}

}  // namespace strobe::lm
