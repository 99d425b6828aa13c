// Tests the plan of a step on several devices: pipeline stages and the feed-forward model, against values computed by
// hand.
#include "lm/plan/shared_step.h"

#include <gtest/gtest.h>

#include "lm/plan/device_memory.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

// 16 tokens per sequence. A block has 4 * 64 + 3 * 96 + 2 * 8 = 560 parameters. The first stage has 40 more
// (embedding), the last 48 (unembedding and norm).
SharedStep small_step(std::int64_t layers, std::int64_t stages, std::int64_t batch, std::int64_t micro_batches) {
  return {.one = {.shape = {.d_model = 8, .d_ff = 12, .layers = layers, .heads = 2, .vocabulary = 5, .context = 16},
                  .batch = batch},
          .mesh = {.pipeline = stages},
          .micro_batches = micro_batches};
}

TEST(SharedStep, AnUnevenPipelineHasItsLongerStagesFirst) {
  EXPECT_EQ(stages_text(48, 4), "4 stages of 12 layers");
  EXPECT_EQ(stages_text(10, 4), "2 stages of 3 layers, 2 of 2");
  const std::vector<Stage> stages = stages_of(small_step(10, 4, 8, 8));
  ASSERT_EQ(stages.size(), 4u);
  const std::int64_t layers[] = {3, 3, 2, 2}, in_flight[] = {4, 3, 2, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(stages[i].layers, layers[i]);
    EXPECT_EQ(stages[i].in_flight, in_flight[i]) << "1F1B: one micro-batch for this stage and for each later one";
    EXPECT_EQ(stages[i].embeds, i == 0);
    EXPECT_EQ(stages[i].unembeds, i == 3);
  }
  EXPECT_EQ(stages_of(small_step(10, 4, 2, 2))[0].in_flight, 2) << "the step has two micro-batches";
  EXPECT_EQ(stages_of(small_step(64, 64, 1, 1)).size(), 3u)
      << "one entry each for the first, the inner and the last stages";
  EXPECT_EQ(stages_of(small_step(4, 1, 1, 1)).size(), 1u);
}

TEST(SharedStep, ParametersOfStagesAddUpToTheModel) {
  const SharedStep step = small_step(4, 2, 4, 4);
  const std::vector<Stage> stages = stages_of(step);
  const StageParameters first = parameters_of(step, stages.at(0)), last = parameters_of(step, stages.at(1));
  EXPECT_EQ(first.count(), 2 * 560 + 40);
  EXPECT_EQ(last.count(), 2 * 560 + 48);
  EXPECT_EQ(first.count() + last.count(), parameter_count(step.one.shape));
  EXPECT_EQ(first.units(), 3);
  EXPECT_EQ(first.last_gradient, 40);
  EXPECT_DOUBLE_EQ(forward_flops(step, stages[0]) + forward_flops(step, stages[1]),
                   forward_flops(small_step(4, 1, 4, 1), stages_of(small_step(4, 1, 4, 1)).at(0)));
}

// fp32 elements per token with d = 8 and d_ff = 12:
// - per block 8 d + 3 d_ff + 2 norm factors + 2 LSE = 104;
// - 5 d for gradients, and d for the output;
// - in the last stage also a norm of d, its factor and 5 logits.
TEST(SharedStep, ActivationsAreThoseOfTheMicroBatchesInFlight) {
  const SharedStep step = small_step(4, 2, 4, 4);
  const std::vector<Stage> stages = stages_of(step);
  EXPECT_EQ(stage_activations(step, stages.at(0)), 4u * 16 * (2 * 2 * 104 + 5 * 8 + 8));
  EXPECT_EQ(stage_activations(step, stages.at(1)), 4u * 16 * (2 * 104 + 5 * 8 + 8 + 1 + 8 + 5));
}

TEST(SharedStep, MemoryIsThatOfTheFullestStage) {
  const DeviceMemory memory = device_memory(small_step(4, 2, 4, 4), 100);
  EXPECT_EQ(memory.weights, 4u * (2 * 560 + 40)) << "the first stage: more activations outweigh 8 parameters";
  EXPECT_EQ(memory.gradients, memory.weights);
  EXPECT_EQ(memory.optimizer, 2 * memory.weights);
  EXPECT_EQ(memory.activations,
            stage_activations(small_step(4, 2, 4, 4), {.layers = 2, .in_flight = 2, .unembeds = false}));
}

SharedStep feed_forward(std::int64_t batch, const Mesh& mesh, Precision precision, std::int64_t micro_batches = 1) {
  return {.one = {.shape = {.d_model = 16384, .d_ff = 53248, .layers = 126}, .batch = batch, .precision = precision},
          .mesh = mesh,
          .network = Network::feed_forward,
          .micro_batches = micro_batches};
}

// The exercise of the source document has 126 * 2 * 16384 * 53248 parameters. Parameter, gradient and two moments in
// fp32 are 16 bytes per parameter.
TEST(SharedStep, FeedForwardModelEqualsThatOfTheSourceDocument) {
  const std::int64_t count = 219'848'638'464;
  const SharedStep alone = feed_forward(1, {}, Precision::fp32);
  EXPECT_EQ(parameter_count(alone.one.shape, Network::feed_forward), count);
  const DeviceMemory memory = device_memory(alone, 0);
  EXPECT_EQ(memory.weights + memory.gradients + memory.optimizer, 3'517'578'215'424u)
      << "3.5 TB, or 44 devices of 80 GB";
  EXPECT_EQ(device_memory(feed_forward(1, {}, Precision::bf16), 0).weights, 6u * static_cast<std::size_t>(count));
  // 512 tokens. Each layer saves its input and the values before and after the activation function. The rest is two
  // gradients and the output.
  EXPECT_EQ(memory.activations, 4ull * 512 * (126ull * (16384 + 2 * 53248) + 2 * 16384 + 53248));
  EXPECT_EQ(memory.other, 0u);
  const SharedStep staged = feed_forward(8, {.tensor = 4, .pipeline = 6}, Precision::bf16, 4);
  EXPECT_EQ(device_memory(staged, 0).gradients, static_cast<std::size_t>(count) / 24 * 4);
  EXPECT_EQ(device_memory(staged, 0).activations,
            2ull * 2 * 512 * (4ull * 21 * (16384 + 2 * 13312) + 2 * 16384 + 13312));
  EXPECT_DOUBLE_EQ(forward_flops(alone, stages_of(alone).at(0)), 2.0 * 512 * static_cast<double>(count));
}

std::string refusal(const SharedStep& step) {
  try {
    check(step);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SharedStep, RejectsInvalidSplits) {
  EXPECT_EQ(refusal(small_step(4, 4, 6, 3)), "");
  EXPECT_EQ(refusal(small_step(4, 5, 6, 3)), "mesh pipeline=5: more stages than the model's 4 layers; valid: 1 to 4");
  EXPECT_EQ(refusal(small_step(4, 2, 6, 4)), "4 micro-batches: do not divide a batch of 6; valid: a divisor of it");
  EXPECT_EQ(refusal(feed_forward(1, {.tensor = 13}, Precision::fp32)), "") << "only d_ff is split";
  EXPECT_EQ(refusal(feed_forward(1, {.tensor = 3}, Precision::fp32)),
            "mesh tensor=3: does not divide d_ff 53248; valid: a divisor of it");
  SharedStep huge = feed_forward(1 << 20, {.pipeline = 2}, Precision::fp32, 1 << 20);
  huge.one.shape.context = huge.one.shape.d_model = huge.one.shape.d_ff = 1 << 20;
  huge.one.shape.layers = 100'000;
  EXPECT_THROW(device_memory(huge, 0), Error);
}

}  // namespace
}  // namespace strobe::lm
