// Tests the memory of a training step on the CPU: the timeline of allocations and tensors, compared with the
// allocator's count, the prediction and the memory plan.
#include "lm/memory/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "lm/cases.h"

namespace strobe::lm {
namespace {

BenchCase small_case(Precision precision, BenchPass pass) {
  return {.shape = {.d_model = 32, .d_ff = 48, .layers = 3, .heads = 2, .vocabulary = 50, .context = 24},
          .batch = 2,
          .precision = precision,
          .pass = pass,
          .execution = {.threads = 2}};
}

constexpr Recompute kRecomputations[] = {Recompute::none, Recompute::attention, Recompute::block};

std::size_t in(const ByCategory& bytes, Category category) { return bytes[static_cast<std::size_t>(category)]; }

TEST(MemoryBench, CategoriesAddUpToWhatTheAllocatorCounted) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const BenchPass pass : {BenchPass::forward, BenchPass::forward_backward, BenchPass::step}) {
      for (const char* const kernel : {"flash2", "standard"}) {
        const bool updates = precision == Precision::bf16 && pass == BenchPass::step;
        for (int i = 0; i < (updates ? 12 : 6); ++i) {
          BenchCase one = small_case(precision, pass);
          if (i >= 6) one.gradients = GradientMemory::over_copies;
          one.shape.architecture = kArchitectures[i / 3 % 2];
          one.attention = kernel;
          one.recompute = kRecomputations[i % 3];
          const MemoryFigures figures = measure_memory(one);
          EXPECT_EQ(figures.timeline.peak(), figures.counted);
          EXPECT_EQ(figures.predicted, figures.counted) << name_of(precision) << " " << kernel;
          EXPECT_FALSE(figures.driver.has_value());
          for (const Lifetime& lifetime : figures.timeline.allocations) EXPECT_GE(lifetime.to, 0) << lifetime.name;
        }
      }
    }
  }
}

void expect_categories(const BenchCase& one) {
  const auto parameters = static_cast<std::size_t>(parameter_count(one.shape));
  const MemoryTimeline timeline = measure_memory(one).timeline;
  for (const ByCategory& moment : timeline.moments) {
    EXPECT_EQ(in(moment, Category::parameters), 6 * parameters);
    EXPECT_EQ(in(moment, Category::optimizer), 8 * parameters);
  }
  EXPECT_EQ(in(timeline.moments.front(), Category::gradients), 0u);
  EXPECT_EQ(in(timeline.moments.back(), Category::gradients), 4 * parameters) << "the update reads all gradients";
  EXPECT_EQ(in(timeline.moments.back(), Category::saved), 0u);
  EXPECT_NE(timeline.operations.back().find("adamw"), std::string::npos);
}

TEST(MemoryBench, CategoriesAreThoseOfTheModel) {
  for (const Architecture architecture : kArchitectures) {
    BenchCase one = small_case(Precision::bf16, BenchPass::step);
    one.shape.architecture = architecture;
    expect_categories(one);
  }
}

TEST(MemoryBench, MomentsCountTheLiveTensors) {
  for (const GradientMemory memory : {GradientMemory::shared, GradientMemory::over_copies}) {
    BenchCase one = small_case(Precision::bf16, BenchPass::step);
    one.gradients = memory;
    const MemoryTimeline timeline = measure_memory(one).timeline;
    for (std::size_t at = 0; at < timeline.moments.size(); ++at) {
      ByCategory living{};
      for (const Lifetime& lifetime : timeline.tensors) {
        if (lifetime.from <= static_cast<int>(at) && static_cast<int>(at) <= lifetime.to) {
          living[static_cast<std::size_t>(lifetime.category)] += lifetime.bytes;
        }
      }
      for (const Category category : {Category::gradients, Category::saved, Category::transient}) {
        EXPECT_EQ(in(timeline.moments[at], category), in(living, category)) << timeline.operations[at];
      }
    }
  }
}

// GradientMemory::over_copies: the gradients of a block overwrite the bf16 copies of its parameters once the backward
// has read the copies.
TEST(MemoryBench, GradientsReplaceCopies) {
  BenchCase one = small_case(Precision::bf16, BenchPass::step);
  one.gradients = GradientMemory::over_copies;
  const auto parameters = static_cast<std::size_t>(parameter_count(one.shape));
  const MemoryTimeline timeline = measure_memory(one).timeline;
  const auto embedding = static_cast<std::size_t>(one.shape.vocabulary * one.shape.d_model);
  EXPECT_EQ(in(timeline.moments.front(), Category::parameters), 6 * parameters - 2 * embedding);
  EXPECT_EQ(in(timeline.moments.back(), Category::parameters), 4 * parameters);
  EXPECT_EQ(in(timeline.moments.back(), Category::gradients), 4 * parameters);
  const auto copies = std::find_if(timeline.tensors.begin(), timeline.tensors.end(), [](const Lifetime& lifetime) {
    return lifetime.name == "layers.1 as matmuls read it";
  });
  ASSERT_NE(copies, timeline.tensors.end());
  EXPECT_EQ(copies->from, -1) << "the copy exists before the step";
  EXPECT_EQ(timeline.operations.at(static_cast<std::size_t>(copies->to)),
            "linear backward input layers.1.attention.q+k+v");
}

// Tensors that share memory in the plan are never live at the same time: neither two activations, nor a gradient and an
// activation.
TEST(MemoryBench, TensorsLiveAtTheSameTimeDoNotOverlap) {
  for (int i = 0; i < 72; ++i) {
    const BenchPass pass = i < 48 ? BenchPass::step : BenchPass::forward;
    BenchCase one = small_case(i % 6 < 3 && i % 24 < 12 ? Precision::fp32 : Precision::bf16, pass);
    one.shape.architecture = kArchitectures[i / 6 % 2];
    if (i % 24 >= 12 && pass == BenchPass::step) one.gradients = GradientMemory::over_copies;
    if (i >= 24) one.attention = "standard";
    one.recompute = kRecomputations[i % 3];
    const MemoryTimeline timeline = measure_memory(one).timeline;
    for (const Lifetime& a : timeline.tensors) {
      for (const Lifetime& b : timeline.tensors) {
        if (&a == &b || a.to < b.from || b.to < a.from) continue;
        EXPECT_TRUE(a.at + a.bytes <= b.at || b.at + b.bytes <= a.at) << a.name << " and " << b.name;
      }
    }
  }
}

TEST(MemoryBench, ATensorLivesFromItsWriteToItsLastRead) {
  const auto lives = [](BenchPass pass, const std::string& name, Architecture architecture = Architecture::llama) {
    BenchCase one = small_case(Precision::fp32, pass);
    one.shape.architecture = architecture;
    const MemoryTimeline timeline = measure_memory(one).timeline;
    const auto found = std::find_if(timeline.tensors.begin(), timeline.tensors.end(),
                                    [&](const Lifetime& one) { return one.name == name; });
    EXPECT_NE(found, timeline.tensors.end()) << name;
    return std::tuple(timeline.operations.at(static_cast<std::size_t>(found->from)),
                      timeline.operations.at(static_cast<std::size_t>(found->to)), found->category);
  };
  EXPECT_EQ(lives(BenchPass::step, "layers.1.feed_forward.gated"),
            std::tuple("swiglu layers.1.feed_forward.w1+w3", "linear backward weight layers.1.feed_forward.w2",
                       Category::saved));
  EXPECT_EQ(lives(BenchPass::forward, "block.feed_forward.gated"),
            std::tuple("swiglu layers.0.feed_forward.w1+w3", "linear layers.0.feed_forward.w2", Category::transient));
  EXPECT_EQ(lives(BenchPass::forward, "block.x"),
            std::tuple("embedding embedding", "rms_norm norm", Category::transient));
  EXPECT_EQ(lives(BenchPass::step, "gradient of norm.weight"),
            std::tuple("rms_norm backward norm", "adamw all parameters", Category::gradients));
  EXPECT_EQ(
      lives(BenchPass::step, "layers.1.feed_forward.w1", Architecture::gpt2),
      std::tuple("linear layers.1.feed_forward.w1", "linear backward input layers.1.feed_forward.w1", Category::saved));
  EXPECT_EQ(lives(BenchPass::step, "gradient of layers.1.attention.v.bias", Architecture::gpt2),
            std::tuple("bias backward layers.1.attention.q+k+v", "adamw all parameters", Category::gradients));
  EXPECT_EQ(lives(BenchPass::step, "gradient of norm.bias", Architecture::gpt2),
            std::tuple("layer_norm backward norm", "adamw all parameters", Category::gradients));
}

// Saved bytes equal the memory plan without the gradients. If recomputed blocks share the memory of a tensor, only the
// last block's tensor counts as saved.
TEST(MemoryBench, RecomputationSavesWhatThePlanPredicts) {
  std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const Recompute recompute : kRecomputations) {
    BenchCase one = small_case(Precision::fp32, BenchPass::step);
    one.recompute = recompute;
    const MemoryTimeline timeline = measure_memory(one).timeline;
    std::size_t kept = 0;
    for (const Activation& activation :
         activation_plan(one.shape, one.batch, DType::fp32, {.recompute = recompute}).table) {
      kept += activation.name.starts_with("gradient") ? 0 : activation.bytes();
    }
    EXPECT_EQ(timeline.most_saved(), kept) << name_of(recompute);
    EXPECT_LT(kept, most) << name_of(recompute);
    most = kept;
  }
}

// In mixed precision, operands and results of matmuls are bf16, other floating-point tensors fp32.
TEST(MemoryBench, EveryTensorReportsItsType) {
  for (const GradientMemory memory : {GradientMemory::shared, GradientMemory::over_copies}) {
    BenchCase one = small_case(Precision::bf16, BenchPass::step);
    one.gradients = memory;
    const MemoryTimeline timeline = measure_memory(one).timeline;
    std::map<std::string, std::string> types;
    for (const auto* lives : {&timeline.allocations, &timeline.tensors}) {
      for (const Lifetime& lifetime : *lives) types[lifetime.name] = lifetime.type;
    }
    for (const char* const name :
         {"parameters", "AdamW's mean", "AdamW's variance", "RoPE table", "gradient of embedding.weight",
          "gradient of layers.1.feed_forward.w2.weight", "layers.1.attention.lse"}) {
      ASSERT_TRUE(types.contains(name)) << name;
      EXPECT_EQ(types[name], "fp32") << name;
    }
    const bool over = memory == GradientMemory::over_copies;
    for (const char* const name : {over ? "layers.1 as matmuls read it" : "parameters, as matmuls read them",
                                   "layers.1.attention.qkv", "layers.1.feed_forward.gated", "logits"}) {
      ASSERT_TRUE(types.contains(name)) << name;
      EXPECT_EQ(types[name], "bf16") << name;
    }
    EXPECT_EQ(types["tokens and losses"], "int32, fp32");
    EXPECT_EQ(types["activations and gradients"], "") << "its tensors report their own types";
    for (const Lifetime& lifetime : timeline.tensors) EXPECT_NE(lifetime.type, "") << lifetime.name;
  }
}

std::size_t most_of(const MemoryTimeline& timeline, Category category) {
  std::size_t most = 0;
  for (const ByCategory& moment : timeline.moments) most = std::max(most, in(moment, category));
  return most;
}

// The probabilities of all three layers are saved, and their gradient exists for one layer at a time. The peak
// therefore has four tensors of scores.
TEST(MemoryBench, StandardAttentionSavesItsProbabilities) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const std::size_t scores = 2u * 2 * 24 * 24 * size_of(dtype_of(precision));  // batch, heads, context, context
    BenchCase one = small_case(precision, BenchPass::step);
    const std::size_t fused = measure_memory(one).timeline.most_saved();
    one.attention = "standard";
    const MemoryTimeline timeline = measure_memory(one).timeline;
    EXPECT_EQ(most_of(timeline, Category::scores), (3 + 1) * scores);
    const std::size_t lse = 3u * 2 * 2 * 24 * sizeof(float);
    EXPECT_EQ(timeline.most_saved(), fused - lse + 3 * scores) << "standard saves probabilities instead of LSE";
    for (int layer = 0; layer < 3; ++layer) {
      const std::string name = "layers." + std::to_string(layer) + ".attention.probabilities";
      const auto found = std::find_if(timeline.tensors.begin(), timeline.tensors.end(),
                                      [&](const Lifetime& lifetime) { return lifetime.name == name; });
      ASSERT_NE(found, timeline.tensors.end()) << name;
      EXPECT_EQ(found->bytes, scores);
      EXPECT_TRUE(found->is_saved);
      EXPECT_NE(timeline.operations.at(static_cast<std::size_t>(found->to)).find("attention backward"),
                std::string::npos);
    }
    for (const Recompute recompute : {Recompute::attention, Recompute::block}) {
      one.recompute = recompute;
      EXPECT_EQ(most_of(measure_memory(one).timeline, Category::scores), 2 * scores) << name_of(recompute);
    }
    one.pass = BenchPass::forward;
    EXPECT_EQ(most_of(measure_memory(one).timeline, Category::scores), scores)
        << "a forward has the scores of one layer at a time";
  }
}

// A forward-only run holds parameters, their copies for matmuls, tokens, RoPE tables and the activations of one layer.
TEST(MemoryBench, AForwardNeedsNoGradientsAndNoOptimizerState) {
  for (const Architecture architecture : kArchitectures) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      for (const char* const kernel : {"flash2", "standard"}) {
        BenchCase one = small_case(precision, BenchPass::forward);
        one.shape.architecture = architecture;
        one.attention = kernel;
        const MemoryFigures forward = measure_memory(one);
        for (const Category none : {Category::gradients, Category::optimizer, Category::saved}) {
          EXPECT_EQ(most_of(forward.timeline, none), 0u) << name_of(none);
        }
        for (const Lifetime& lifetime : forward.timeline.allocations) {
          EXPECT_TRUE(lifetime.category != Category::optimizer || lifetime.bytes == 0) << lifetime.name;
        }
        one.shape.layers *= 2;
        EXPECT_EQ(most_of(measure_memory(one).timeline, Category::transient),
                  most_of(forward.timeline, Category::transient))
            << "all layers share the same transient memory";
        one.shape.layers /= 2;
        one.pass = BenchPass::step;
        EXPECT_LT(forward.counted, measure_memory(one).counted);
      }
    }
  }
}

TEST(MemoryBench, TheResidualTensorIsBatchContextWidth) {
  EXPECT_EQ(residual_bytes(small_case(Precision::fp32, BenchPass::step)), 2u * 24 * 32 * sizeof(float));
}

}  // namespace
}  // namespace strobe::lm
