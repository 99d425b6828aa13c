// Tests the predicted time of a training step. Values are computed by hand for a machine whose rates are powers of ten.
// Also tests how the time depends on the sizes.
#include "lm/plan/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace strobe::lm {
namespace {

const Machine kMachine{.flop_rate = 1e12,
                       .memory_bandwidth = 1e11,
                       .node = 8,
                       .inside = {.bandwidth = 1e10, .latency = 1e-5},
                       .between = {.bandwidth = 1e9, .latency = 1e-4}};

SharedStep step_of(const Mesh& mesh, Sharding sharding = Sharding::replicated, Precision precision = Precision::fp32) {
  return {{.shape = shape_of("small"), .batch = 4, .precision = precision}, mesh, sharding};
}

const double kCount = static_cast<double>(parameter_count(shape_of("small")));

TEST(StepTime, OneDeviceHasNoCommunication) {
  const SharedStep step = step_of({});
  const StepTime time = step_time(step, kMachine);
  BenchCase one = step.one;
  EXPECT_DOUBLE_EQ(time.forward + time.backward, flops_of(one) / 1e12);
  EXPECT_DOUBLE_EQ(time.backward, 2 * time.forward);
  EXPECT_DOUBLE_EQ(time.update, 28 * kCount / 1e11);
  EXPECT_DOUBLE_EQ(step_time(step_of({}, Sharding::replicated, Precision::bf16), kMachine).update, 30 * kCount / 1e11);
  EXPECT_EQ(time.waiting(), 0);
  EXPECT_EQ(time.step(), time.computing());
  EXPECT_EQ(time.calls, 0);
  EXPECT_EQ(time.call_bytes, 0);
  EXPECT_TRUE(time.hides());
}

TEST(StepTime, DataParallelIsOneAllReducePerBucket) {
  const StepTime time = step_time(step_of({.data = 8}), kMachine, 1e8);
  EXPECT_EQ(time.calls, std::ceil(4 * kCount / 1e8));
  EXPECT_DOUBLE_EQ(time.calls * time.call_bytes, 4 * kCount);
  EXPECT_DOUBLE_EQ(time.inside, 2 * 7.0 / 8 * 4 * kCount);
  EXPECT_EQ(time.between, 0);
  EXPECT_DOUBLE_EQ(time.backward_exchange, time.calls * 6e-5 + 7 * kCount / 1e10);
  EXPECT_EQ(time.gather, 0);
}

// The backward takes 12 s. Its four calls can start at 3, 6, 9 and 12 s. The trailing comments give when each call
// runs.
TEST(StepTime, ExposedTimeIsTheLastCallAndWhatDoesNotOverlap) {
  EXPECT_DOUBLE_EQ(exposed_seconds(4, 8, 2, 12), 2);        // 3 to 5, 6 to 8, 9 to 11, 12 to 14 s
  EXPECT_DOUBLE_EQ(exposed_seconds(4, 8, 5, 12), 5);        // 3 to 4, 6 to 7, 9 to 10, 12 to 17 s
  EXPECT_DOUBLE_EQ(exposed_seconds(4, 16, 4, 12), 16 - 9);  // from 3 s on without a pause
  EXPECT_DOUBLE_EQ(exposed_seconds(1, 4, 4, 12), 4);        // a single call, after the backward
  EXPECT_DOUBLE_EQ(exposed_seconds(3, 0, 0, 12), 0);
}

// In a long backward every call is overlapped except the last one, whose size is the larger of the embedding and a
// bucket.
TEST(StepTime, TheLastCallIsAtLeastTheEmbeddings) {
  SharedStep step = step_of({.data = 8});
  step.one.batch = 64;
  const ModelShape& shape = step.one.shape;
  const double embedding = 4.0 * static_cast<double>(shape.vocabulary * shape.d_model);
  const auto call = [](double bytes) { return 6 * 1e-5 + 2 * 7.0 / 8 * bytes / 1e10; };
  const StepTime small = step_time(step, kMachine, embedding / 10), large = step_time(step, kMachine, 3 * embedding);
  EXPECT_DOUBLE_EQ(small.exposed, call(embedding));
  EXPECT_GT(large.call_bytes, embedding);
  EXPECT_DOUBLE_EQ(large.exposed, call(large.call_bytes));
}

// best_bucket_bytes() is best if the backward takes as long as the transfer. The other sizes tried expose more time.
TEST(StepTime, TheBestBucketMinimizesExposedTime) {
  EXPECT_DOUBLE_EQ(best_bucket_bytes(4e8, 1e9, 1e-4), std::sqrt(4e8 * 1e9 * 1e-4));
  const SharedStep step = step_of({.data = 64});
  const double overhead = 6 * 1e-5 + 6 * 1e-4, seconds_per_byte = 1.75 / 1e10 + 1.75 / 8 / 1e9;
  Machine balanced = kMachine;
  balanced.flop_rate = 2.0 / 3 * flops_of(step.one) / (4 * kCount * seconds_per_byte);
  const StepTime best = step_time(step, balanced);
  EXPECT_EQ(best.calls, std::ceil(4 * kCount / std::sqrt(4 * kCount * overhead / seconds_per_byte)));
  for (const double factor : {0.25, 0.5, 2.0, 4.0}) {
    EXPECT_GT(step_time(step, balanced, factor * best.call_bytes).exposed, best.exposed) << factor;
  }
}

TEST(StepTime, ShardingsExchangeAsTheirStrategy) {
  const double all = 4 * kCount, part = 7.0 / 8;
  const auto of = [&](Sharding sharding) { return step_time(step_of({.shard = 8}, sharding), kMachine); };
  EXPECT_NEAR(of(Sharding::optimizer).inside, 3 * part * all, 1);  // all-reduce, all-gather
  EXPECT_NEAR(of(Sharding::gradients).inside, 2 * part * all, 1);  // reduce-scatter, all-gather
  EXPECT_NEAR(of(Sharding::weights).inside, 3 * part * all, 1);    // two all-gathers, reduce-scatter
  EXPECT_DOUBLE_EQ(of(Sharding::optimizer).update, 28 * kCount / 8 / 1e11);
  EXPECT_EQ(of(Sharding::weights).gather, 0);
  EXPECT_GT(of(Sharding::weights).forward_exchange, 0);
  EXPECT_EQ(of(Sharding::weights).calls, 14);  // 12 blocks, the embedding and the unembedding
  // Replicas of the sharded groups exchange only their shares between nodes.
  const StepTime two_levels = step_time(step_of({.data = 4, .shard = 8}, Sharding::gradients), kMachine);
  EXPECT_NEAR(two_levels.between, 2 * 3.0 / 4 * all / 8, 1);
}

TEST(StepTime, TensorParallelismComputesLessAndWaitsForActivations) {
  const StepTime whole = step_time(step_of({}), kMachine), parts = step_time(step_of({.tensor = 4}), kMachine);
  EXPECT_DOUBLE_EQ(parts.forward, whole.forward / 4);
  const double residual = 4.0 * 4 * 512 * 768, calls = 2 * (2 * 12 + 1);
  EXPECT_NEAR(parts.tensor, calls * (4 * 1e-5 + 1.5 * residual / 1e10), 1e-12);
  EXPECT_NEAR(parts.inside, calls * 1.5 * residual, 1);
  EXPECT_EQ(parts.backward_exchange, 0);
  EXPECT_EQ(parts.calls, 0) << "a single data-parallel rank exchanges no gradients";
  EXPECT_EQ(parts.waiting(), parts.tensor);
}

SharedStep pipeline_of(std::int64_t layers, const Mesh& mesh, std::int64_t micro_batches) {
  return {.one = {.shape = {.d_model = 64, .d_ff = 256, .layers = layers, .context = 128}, .batch = 16},
          .mesh = mesh,
          .network = Network::feed_forward,
          .micro_batches = micro_batches};
}

TEST(StepTime, ThePipelinesBubbleShrinksWithMoreMicroBatches) {
  const double tokens = 16 * 128, flops = 3 * 4 * tokens * 64 * 256 * 2;  // two layers in each of four stages
  for (const std::int64_t micro_batches : {1, 4, 8, 16}) {
    const StepTime time = step_time(pipeline_of(8, {.pipeline = 4}, micro_batches), kMachine);
    const auto m = static_cast<double>(micro_batches);
    EXPECT_NEAR(time.forward + time.backward, flops / 1e12, 1e-15);
    EXPECT_NEAR(time.bubble / (time.forward + time.backward + time.bubble), 3 / (m + 3), 1e-12);
    const double bytes = 4 * tokens * 64 / m;
    EXPECT_NEAR(time.pipeline, 2 * (m + 2) * (1e-5 + bytes / 1e10), 1e-12);
    EXPECT_DOUBLE_EQ(time.inside, 2 * m * bytes) << "an inner stage sends activations on and gradients back";
    EXPECT_DOUBLE_EQ(time.step(), time.forward + time.backward + time.bubble + time.pipeline + time.update);
  }
}

TEST(StepTime, StagesOfAPipelineWaitForTheSlowestOne) {
  const StepTime time = step_time(pipeline_of(5, {.pipeline = 2}, 4), kMachine);
  const double layer = 3 * 4 * (16 * 128 / 4) * 64.0 * 256 / 1e12;
  EXPECT_NEAR(time.forward + time.backward, 4 * 3 * layer, 1e-15) << "the first stage has three of the five layers";
  EXPECT_NEAR(time.bubble, 3 * layer, 1e-15);
  EXPECT_EQ(step_time(pipeline_of(4, {}, 1), kMachine).bubble, 0);
}

// Pipeline stages are the outermost dimension of the mesh, so the 2 stages of 8 devices each are on two nodes.
TEST(StepTime, GradientsOfAPipelineOverlapTheLastMicroBatch) {
  const SharedStep step = pipeline_of(4, {.data = 8, .pipeline = 2}, 4);
  const StepTime time = step_time(step, kMachine, 1e9);
  const double gradients = 4 * 2 * 2 * 64 * 256, call = 6 * 1e-5 + 2 * 7.0 / 8 * gradients / 1e10;
  EXPECT_EQ(time.calls, 1);
  EXPECT_DOUBLE_EQ(time.call_bytes, gradients);
  EXPECT_DOUBLE_EQ(time.exposed, call);
  EXPECT_DOUBLE_EQ(time.last_backward, time.backward / 4);
  EXPECT_DOUBLE_EQ(time.between, 4 * 4.0 * (16 * 128 / 4) * 64) << "each stage sends in one direction";
  EXPECT_TRUE(time.hides());
  EXPECT_FALSE(step_time(pipeline_of(4, {.data = 8, .pipeline = 2}, 16), kMachine, 1e9).hides());
  SharedStep split = pipeline_of(4, {.shard = 8, .pipeline = 2}, 4);
  split.sharding = Sharding::weights;
  const double gathered = 7.0 / 8 * gradients;  // parameters in fp32 have as many bytes
  EXPECT_NEAR(step_time(split, kMachine).inside, 4 * 2 * gathered + gathered, 1)
      << "every micro-batch gathers the parameters again";
}

TEST(StepTime, IsComputeBoundFromTheSmallestBatchOn) {
  Machine slow_links = kMachine;
  slow_links.inside.bandwidth = slow_links.between.bandwidth = 1e8;
  for (const Sharding sharding : {Sharding::replicated, Sharding::optimizer, Sharding::gradients, Sharding::weights}) {
    SharedStep step =
        step_of(sharding == Sharding::replicated ? Mesh{.data = 64} : Mesh{.data = 2, .shard = 32}, sharding);
    const std::int64_t least = least_batch(step, slow_links);
    ASSERT_GT(least, 1);
    step.one.batch = least;
    EXPECT_TRUE(step_time(step, slow_links).hides()) << name_of(sharding);
    step.one.batch = least - 1;
    EXPECT_FALSE(step_time(step, slow_links).hides()) << name_of(sharding);
  }
  EXPECT_EQ(least_batch(step_of({}), kMachine), 1);
  Machine no_links = kMachine;
  no_links.inside.bandwidth = 1e-9;
  EXPECT_EQ(least_batch(step_of({.data = 2}), no_links), 9'000'000'000'000'000);
  // One node of n devices without latency, P parameters and T tokens. The backward takes 4 P T / rate, the all-reduce
  // of fp32 gradients 8 P (n - 1) / n / bandwidth. These times are equal at T = 2 (n - 1) / n * rate / bandwidth.
  // Attention and the embedding change T slightly.
  Machine flat = kMachine;
  flat.node = 0;
  flat.inside = {.bandwidth = 1e8, .latency = 0};
  const double tokens = 2 * 63.0 / 64 * 1e12 / 1e8;
  EXPECT_NEAR(static_cast<double>(least_batch(step_of({.data = 64}), flat)) * 512 / tokens, 1, 0.1);
}

TEST(StepTime, MoreDevicesNeverMakeAStepShorterNorAFasterLinkLonger) {
  for (const Sharding sharding : {Sharding::replicated, Sharding::gradients, Sharding::weights}) {
    const auto mesh_of = [&](std::int64_t devices) {
      return sharding == Sharding::replicated ? Mesh{.data = devices} : Mesh{.data = devices / 8, .shard = 8};
    };
    double last = 0;
    for (std::int64_t devices = 8; devices <= 16384; devices *= 2) {
      const double now = step_time(step_of(mesh_of(devices), sharding), kMachine).step();
      EXPECT_GE(now, last) << devices;
      last = now;
    }
    Machine fast = kMachine;
    fast.between.bandwidth *= 10;
    const SharedStep step = step_of(mesh_of(64), sharding);
    EXPECT_LT(step_time(step, fast).step(), step_time(step, kMachine).step()) << name_of(sharding);
  }
}

}  // namespace
}  // namespace strobe::lm
