// Tests the predicted bytes per device against values computed by hand, and that each further sharding reduces the
// total.
#include "lm/plan/device_memory.h"

#include <gtest/gtest.h>

namespace strobe::lm {
namespace {

BenchCase one_of(const char* size, Precision precision) {
  return {.shape = shape_of(size), .batch = 2, .precision = precision};
}

TEST(DeviceMemory, OfKnownSizesEqualsBytesByHand) {
  // Parameters of xl (vocabulary 10,000, d 1600, d_ff 6400, 48 layers):
  //   embeddings  2 * 10,000 * 1600
  //   blocks      48 * (4 * 1600^2 + 3 * 1600 * 6400 + 2 * 1600)
  //   last norm   1600
  const std::size_t xl = 32'000'000 + 48ull * (10'240'000 + 30'720'000 + 3'200) + 1600;
  const DeviceMemory memory = device_memory({.one = one_of("xl", Precision::bf16)}, 0);
  EXPECT_EQ(memory.weights, 6 * xl);
  EXPECT_EQ(memory.gradients, 4 * xl);
  EXPECT_EQ(memory.optimizer, 8 * xl);
  EXPECT_EQ(device_memory({.one = one_of("xl", Precision::fp32)}, 0).weights, 4 * xl);
  EXPECT_EQ(device_memory({.one = one_of("xl", Precision::bf16), .mesh = {.data = 64}}, 0).total(), memory.total());
}

// A forward holds x, the normalized x, and the largest of three groups of tensors:
// - the outputs of w1, w3 and their gate;
// - q, k, v and, with `standard`, the probabilities;
// - the logits.
TEST(DeviceMemory, OfAForwardEqualsBytesByHand) {
  BenchCase one = one_of("xl", Precision::fp32);
  one.pass = BenchPass::forward;
  one.shape.context = 128;
  const std::size_t tokens = 2 * 128, d = 1600, d_ff = 6400;
  const DeviceMemory memory = device_memory({.one = one}, 0);
  EXPECT_EQ(memory.weights, 4ull * 1'998'235'200);
  EXPECT_EQ(memory.gradients, 0u);
  EXPECT_EQ(memory.optimizer, 0u);
  EXPECT_EQ(memory.activations, 4 * tokens * (2 * d + 1 + 3 * d_ff));
  EXPECT_LT(memory.total(), 7.7 * (1 << 30));
  one.attention = "standard";
  one.shape.context = 1024;
  EXPECT_EQ(device_memory({.one = one}, 0).activations, 4 * 2048 * (2 * d + 1 + 3 * d + 25 * 1024))
      << "probabilities of 25 heads are the largest";
}

TEST(DeviceMemory, OfGpt2EqualsBytesByHand) {
  const std::size_t count = 70'859'776;
  const DeviceMemory memory = device_memory({.one = one_of("ddp-small", Precision::fp32)}, 0);
  EXPECT_EQ(memory.weights, 4 * count);
  EXPECT_EQ(memory.optimizer, 8 * count);
  // d 8, d_ff 12, 1 layer, 2 heads, vocabulary 5, context 16, split in two. Not split: two norms with biases and the
  // biases of o and w2, per block.
  const ModelShape shape{.d_model = 8,
                         .d_ff = 12,
                         .layers = 1,
                         .heads = 2,
                         .vocabulary = 5,
                         .context = 16,
                         .architecture = Architecture::gpt2};
  EXPECT_EQ(count_of(parameters_of_a_device(shape, 1)), parameter_count(shape));
  const std::int64_t split = 4 * 64 + 2 * 96 + 3 * 8 + 12;
  const std::int64_t ends = 2 * 3 * 8 + 16 * 8 + 2 * 8;
  EXPECT_EQ(count_of(parameters_of_a_device(shape, 2)), ends + split / 2 + 6 * 8);
  const std::int64_t embedding = 5 * 8 + 16 * 8, block = split + 6 * 8;
  const auto largest = [](const ModelShape& of) {
    const SharedStep step{.one = {.shape = of, .batch = 1}};
    return parameters_of(step, stages_of(step).at(0)).largest_unit();
  };
  EXPECT_EQ(largest(shape), std::max(embedding, block));
  ModelShape long_one = shape;
  long_one.context = 1000;
  EXPECT_EQ(largest(long_one), 1005 * 8) << "1000 positions and 5 tokens form one unit";
}

TEST(DeviceMemory, EachShardingShardsOneMoreKindOfState) {
  const Mesh mesh{.data = 2, .shard = 8};
  const auto of = [&](Sharding sharding) {
    return device_memory({.one = one_of("xl", Precision::bf16), .mesh = mesh, .sharding = sharding}, 0);
  };
  const DeviceMemory none = of(Sharding::replicated), optimizer = of(Sharding::optimizer),
                     gradients = of(Sharding::gradients), weights = of(Sharding::weights);
  const std::size_t count = none.gradients / 4, block = 40'963'200;
  EXPECT_EQ(optimizer.optimizer, count);  // 8 bytes per parameter, split over 8 devices; `count` is a multiple of 8
  EXPECT_EQ(optimizer.gradients, none.gradients);
  EXPECT_EQ(gradients.gradients, count / 2 + 4 * block);
  EXPECT_EQ(gradients.weights, none.weights);
  EXPECT_EQ(weights.weights, 6 * count / 8 + 2 * 2 * block);
  EXPECT_EQ(weights.activations, gradients.activations);
  EXPECT_GE(gradients.activations, none.activations);  // gradients no longer share their memory
  EXPECT_GT(none.total(), optimizer.total());
  EXPECT_GT(optimizer.total(), gradients.total());
  EXPECT_GT(gradients.total(), weights.total());
}

TEST(DeviceMemory, AShardedGradientNeedsTheLargerOfUnitAndBucket) {
  const auto of = [](Sharding sharding, std::size_t bucket) {
    return device_memory({.one = one_of("xl", Precision::bf16), .mesh = {.shard = 8}, .sharding = sharding}, 0, bucket);
  };
  const std::size_t block = 4 * 40'963'200, split = of(Sharding::gradients, 0).gradients;
  EXPECT_EQ(of(Sharding::gradients, block).gradients, split);
  EXPECT_EQ(of(Sharding::gradients, 2 * block).gradients, split + block);
  EXPECT_EQ(of(Sharding::optimizer, 2 * block).total(), of(Sharding::optimizer, 0).total())
      << "without sharded gradients the bucket does not count";
}

TEST(DeviceMemory, TensorParallelismSplitsMatricesAndActivations) {
  // d 8, d_ff 12, 1 layer, 2 heads, vocabulary 5: each of two devices has room for 3 tokens of the vocabulary.
  BenchCase one{.shape = {.d_model = 8, .d_ff = 12, .layers = 1, .heads = 2, .vocabulary = 5, .context = 16},
                .batch = 1};
  EXPECT_EQ(count_of(parameters_of_a_device(one.shape, 1)), parameter_count(one.shape));
  EXPECT_EQ(count_of(parameters_of_a_device(one.shape, 2)), 2 * 3 * 8 + (4 * 64 + 3 * 96) / 2 + 3 * 8);
  const ActivationPlan whole = activation_plan(one.shape, 1, DType::fp32),
                       half = activation_plan(one.shape, 1, DType::fp32, {.parts = 2});
  ASSERT_EQ(whole.table.size(), half.table.size());
  for (std::size_t i = 0; i < whole.table.size(); ++i) {
    const std::string& name = whole.table[i].name;
    const bool split = name.find("qkv") != name.npos || name.find("attention.o") != name.npos ||
                       name.find("lse") != name.npos || name.find("feed_forward.") != name.npos;
    const std::int64_t expected = name == "logits" ? 16 * 3 : whole.table[i].count / (split ? 2 : 1);
    EXPECT_EQ(half.table[i].count, expected) << name;
  }
  std::size_t last = device_memory({.one = one_of("large", Precision::bf16)}, 0).total();
  for (const std::int64_t tensor : {2, 4, 10, 20}) {
    const std::size_t now =
        device_memory({.one = one_of("large", Precision::bf16), .mesh = {.tensor = tensor}}, 0).total();
    EXPECT_LT(now, last) << tensor;
    last = now;
  }
}

}  // namespace
}  // namespace strobe::lm
