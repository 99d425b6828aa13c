// Tests the memory plan of a step's activations: closed forms of its bytes, and which tensors may share memory.
#include "lm/models/activations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lm/cases.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

constexpr Recompute kModes[] = {Recompute::none, Recompute::attention, Recompute::block};

TEST(Activations, ThePlanHasNoOverlapsAndNoGaps) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const Recompute recompute : kModes) {
      const ActivationPlan plan = activation_plan(shape_of("tiny"), 3, dtype, {.recompute = recompute});
      std::size_t next = 0;
      for (const Activation& one : plan.table) {
        EXPECT_EQ(one.first, next) << one.name;
        EXPECT_EQ(one.first % 64, 0u);
        next = (one.first + one.bytes() + 63) / 64 * 64;
      }
      EXPECT_EQ(plan.bytes, next);
      EXPECT_EQ(plan.blocks.size(), 4u);
    }
  }
}

TEST(Activations, BlocksShareOnlyRecomputedTensors) {
  for (const Recompute recompute : kModes) {
    const ActivationPlan plan = activation_plan(shape_of("tiny"), 3, DType::bf16, {.recompute = recompute});
    const BlockActivations &a = plan.blocks[0], &b = plan.blocks[1];
    EXPECT_NE(a.x, b.x);
    const bool attention = recompute != Recompute::none, rest = recompute == Recompute::block;
    EXPECT_EQ(a.attention_statistics == b.attention_statistics, attention);
    EXPECT_EQ(a.attention_normed == b.attention_normed, attention);
    EXPECT_EQ(a.qkv == b.qkv, attention);
    EXPECT_EQ(a.o == b.o, attention);
    EXPECT_EQ(a.lse == b.lse, attention);
    EXPECT_EQ(a.middle == b.middle, rest);
    EXPECT_EQ(a.feed_forward_statistics == b.feed_forward_statistics, rest);
    EXPECT_EQ(a.feed_forward_normed == b.feed_forward_normed, rest);
    EXPECT_EQ(a.hidden == b.hidden, rest);
    EXPECT_EQ(a.activated == b.activated, rest);
  }
}

// The closed form is in docs/training.md. T: tokens of the batch; d: d_model; d_ff = 4 d; e: bytes per element; L:
// layers; H: heads.
TEST(Activations, SavedBytesEqualTheClosedForm) {
  const ModelShape shape = shape_of("small");
  const std::size_t T = 4 * 512, d = 768, L = 12, H = 12, e = 2;
  const std::size_t attention = T * (5 * d * e + 4 * (H + 1)), rest = T * (14 * d * e + 4), x = T * d * e;
  const auto kept = [&](Recompute recompute) {
    const ActivationPlan plan = activation_plan(shape, 4, DType::bf16, {.recompute = recompute});
    return plan.bytes - plan.d_end;
  };
  const std::size_t ends = 2 * x + T * (10'000 * e + 4);  // embedding; norm and its inverse rms; logits
  EXPECT_EQ(kept(Recompute::none), ends + L * (x + attention + rest));
  EXPECT_EQ(kept(Recompute::attention), ends + L * (x + rest) + attention);
  EXPECT_EQ(kept(Recompute::block), ends + L * x + attention + rest);
}

// GPT-2 differs from Llama: LayerNorm also saves a mean, and the feed-forward layer has one matmul on its input, not
// two.
TEST(Activations, SavedBytesOfGpt2EqualTheClosedForm) {
  const std::size_t T = 4 * 512, d = 512, L = 12, H = 8, e = 2;
  const std::size_t attention = T * (5 * d * e + 4 * (H + 2)), rest = T * (10 * d * e + 8), x = T * d * e;
  const ActivationPlan plan = activation_plan(shape_of("ddp-small"), 4, DType::bf16);
  EXPECT_EQ(plan.bytes - plan.d_end, 2 * x + T * (32'000 * e + 8) + L * (x + attention + rest));
}

TEST(Activations, SizesAbove2To60BytesAreRejected) {
  const ModelShape shape{
      .d_model = 262144, .d_ff = 1048576, .layers = 9, .heads = 1024, .vocabulary = 10'000, .context = 1048576};
  EXPECT_THROW(activation_plan(shape, 1048576, DType::bf16), Error);
  EXPECT_GT(activation_plan(shape, 1024, DType::bf16).bytes, std::size_t{1} << 50);
}

// A gradient may reuse the memory of an activation unless that activation is read after the gradient is written.
void expect_only_free_memory_shared(GradientMemory memory) {
  // In a short context, gradients begin at d_end: d_x and the other tensors before d_end are read until the backward
  // writes the last gradient.
  ModelShape short_one = shape_of("small");
  short_one.context = 16;
  for (const ModelShape& shape : {shape_of("tiny"), shape_of("small"), shape_of("xl"), shape_of("ddp-small"), short_one,
                                  as(Architecture::gpt2, shape_of("tiny"))}) {
    const std::vector<Parameter> parameters = parameter_table(shape);
    for (const Recompute recompute : kModes) {
      const ActivationPlan plan = activation_plan(shape, 4, DType::bf16, {.recompute = recompute, .gradients = memory});
      EXPECT_GE(gradients_at(plan, parameters, GradientMemory::own), plan.bytes);
      const std::size_t shared = gradients_at(plan, parameters, memory);
      EXPECT_LT(shared, plan.bytes);
      EXPECT_EQ(shared % 256, 0u);
      const auto begins = [&](std::size_t parameter) {
        return shared + static_cast<std::size_t>(parameters[parameter].first) * sizeof(float);
      };
      EXPECT_GE(begins(0), plan.d_end) << "d_x and the tensors before it are read until the last gradient is written";
      for (std::size_t layer = 0; layer < plan.blocks.size(); ++layer) {
        const BlockActivations& block = plan.blocks[layer];
        const std::size_t first = begins(first_parameter(shape.architecture, layer));
        for (const std::size_t tensor : {block.x, block.qkv, block.activated}) {
          EXPECT_LT(plan.table.at(tensor).first, first) << layer;
        }
        EXPECT_LE(block.end, first) << layer;
      }
      EXPECT_LE(plan.bytes, begins(first_parameter(shape.architecture, plan.blocks.size())))
          << "activations must end before the gradients of the final norm and the unembedding";
      for (const Copies& copies : plan.copies) {
        const Activation& found = plan.table.at(copies.tensor);
        EXPECT_LE(found.first + found.bytes(), begins(copies.parameter))
            << found.name << ": its gradients would overwrite it before the backward reads it";
      }
    }
  }
}

TEST(Activations, GradientsShareOnlyFreeMemory) { expect_only_free_memory_shared(GradientMemory::shared); }

TEST(Activations, GradientsReuseOnlyCopiesThatWereRead) { expect_only_free_memory_shared(GradientMemory::over_copies); }

TEST(Activations, EveryMatmulWeightHasACopy) {
  for (const Architecture architecture : kArchitectures) {
    const ModelShape shape = as(architecture, shape_of("tiny"));
    const ActivationPlan plan = activation_plan(shape, 4, DType::bf16, {.gradients = GradientMemory::over_copies});
    ASSERT_EQ(plan.copies.size(), static_cast<std::size_t>(shape.layers) + 1);
    const std::size_t first_block = first_parameter(architecture, 0);
    std::int64_t count = parameter_table(shape)[first_block].first;
    EXPECT_EQ(copies_with(plan, first_block - 1), nullptr) << "embedding and positions have no copy";
    EXPECT_EQ(copies_with(plan, first_block), &plan.copies[0]);
    EXPECT_EQ(copies_with(plan, parameter_table(shape).size() - 1), &plan.copies.back());
    for (const Copies& copies : plan.copies) {
      EXPECT_EQ(parameter_table(shape)[copies.parameter].first, count);
      count += plan.table.at(copies.tensor).count;
    }
    EXPECT_EQ(count, parameter_count(shape));
    EXPECT_TRUE(activation_plan(shape, 4, DType::bf16).copies.empty());
    EXPECT_TRUE(activation_plan(shape, 4, DType::fp32, {.gradients = GradientMemory::over_copies}).copies.empty());
    EXPECT_THROW(activation_plan(shape, 4, DType::bf16, {.gradients = GradientMemory::over_copies, .parts = 2}), Error);
  }
}

// The sizes are valid separately, but their product overflows.
TEST(Activations, OverflowingProductsAreRejected) {
  ModelShape shape = shape_of("tiny");
  shape.d_model = shape.context = shape.vocabulary = shape.d_ff = kMostOfShape;
  shape.heads = kMostOfShape / 256;
  for (const std::int64_t batch : {std::int64_t{100'000'000}, std::int64_t{1} << 62}) {
    try {
      activation_plan(shape, batch, DType::fp32);
      ADD_FAILURE() << batch;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("take more than 2^60 bytes"), std::string::npos) << error.what();
    }
  }
}

// A bf16 step has 18 bytes per parameter, of which 2 are the copy for matmuls. With over_copies the gradients reuse the
// copies, except those of about one block.
TEST(Activations, LargeModelsHaveGradientsInCopies) {
  EXPECT_EQ(step_memory(shape_of("xl"), DType::bf16), GradientMemory::shared);
  const ModelShape shape = shape_of("2.7B");
  EXPECT_EQ(step_memory(shape, DType::fp32), GradientMemory::shared);
  ASSERT_EQ(step_memory(shape, DType::bf16), GradientMemory::over_copies);
  const auto beyond = [&](GradientMemory memory) {
    return gradients_at(activation_plan(shape, 4, DType::bf16, {.gradients = memory}), parameter_table(shape), memory);
  };
  const auto copies = static_cast<std::size_t>(parameter_count(shape)) * 2;
  EXPECT_LT(beyond(GradientMemory::over_copies), beyond(GradientMemory::shared) + copies / 10);
}

}  // namespace
}  // namespace strobe::lm
