// Compares the gradients of every parameter on a GPU with those of the CPU in fp32. Covers all precisions, head
// dimensions 80, 64, 8 and 6, sizes that are not multiples of a vector, a batch of one and a single token. Each case
// runs three times: launched directly, captured as a CUDA graph, and replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lm/cases.h"
#include "lm/model.h"
#include "lm/models/choices.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

using GpuGradients = test::GpuTest;

struct Case {
  ModelShape shape;
  std::int64_t batch;
};
constexpr Case kCases[] = {
    {{.d_model = 128, .d_ff = 320, .layers = 3, .heads = 2, .vocabulary = 101, .context = 70}, 3},
    {{.d_model = 160, .d_ff = 200, .layers = 2, .heads = 2, .vocabulary = 50, .context = 97}, 1},
    {{.d_model = 24, .d_ff = 40, .layers = 2, .heads = 3, .vocabulary = 19, .context = 11}, 2},
    {{.d_model = 12, .d_ff = 10, .layers = 2, .heads = 2, .vocabulary = 7, .context = 1}, 1},
    {as(Architecture::gpt2, {.d_model = 128, .d_ff = 320, .layers = 3, .heads = 2, .vocabulary = 101, .context = 70}),
     3},
    {as(Architecture::gpt2, {.d_model = 24, .d_ff = 40, .layers = 2, .heads = 3, .vocabulary = 19, .context = 11}), 2},
    {as(Architecture::gpt2, {.d_model = 30, .d_ff = 10, .layers = 2, .heads = 5, .vocabulary = 7, .context = 1}), 1},
};
constexpr std::size_t kLarge[] = {0, 4};  // indices of a large case of each architecture

// Returns the bound on the relative error of the gradients, as norm of the difference / norm. For comparison: the CPU's
// own 16-bit gradients have relative errors of up to 0.0025 (fp16) and 0.02 (bf16) in these cases.
double allowed_of(Precision precision) {
  switch (precision) {
    case Precision::fp32: return 1e-4;
    case Precision::tf32:
    case Precision::fp16: return 1e-2;
    case Precision::bf16: return 5e-2;
  }
  return 0;
}

double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// Compares the gradient of each parameter. Gradients of q and k vanish if there is one token; their rounding errors are
// compared with 1 % of the norm of all gradients.
void expect_close(const Model& model, std::span<const float> found, std::span<const float> expected, double allowed) {
  const double whole = norm_of(expected);
  for (const Parameter& parameter : model.parameters()) {
    const auto first = static_cast<std::size_t>(parameter.first), count = static_cast<std::size_t>(parameter.count());
    std::vector<float> difference(count);
    for (std::size_t i = 0; i < count; ++i) difference[i] = found[first + i] - expected[first + i];
    EXPECT_LE(norm_of(difference), allowed * std::max(norm_of(expected.subspan(first, count)), 0.01 * whole))
        << parameter.name;
  }
}

std::vector<float> gradients_of(const Model& model) {
  std::vector<float> gradients(static_cast<std::size_t>(parameter_count(model.shape())));
  model.read_state(State::gradients, gradients);
  return gradients;
}

TEST_F(GpuGradients, MatchTheCpuInEveryPrecisionAndMemory) {
  for (const auto& [shape, batch] : kCases) {
    const Text text(shape, batch, 4);
    Model cpu(shape, batch, DType::fp32, {.threads = 2});
    cpu.begin(7);
    const double loss = cpu.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    const std::vector<float> expected = gradients_of(cpu);
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(testing::Message() << name_of(precision) << " d_model " << shape.d_model);
      std::vector<float> of_own;
      for (const GradientMemory memory : {GradientMemory::own, GradientMemory::shared}) {
        const ops::ExecutionContext execution{.device = Device::cuda, .tf32 = precision == Precision::tf32};
        Model gpu(shape, batch, dtype_of(precision), execution, {.gradients = memory});
        gpu.begin(7);
        for (int again = 0; again < 3; ++again) {
          const double allowed = allowed_of(precision);
          EXPECT_NEAR(gpu.loss_and_lone_gradients(text.tokens.data(), text.targets.data()) / loss, 1, allowed / 5);
          const std::vector<float> found = gradients_of(gpu);
          if (of_own.empty()) expect_close(gpu, found, expected, allowed), of_own = found;
          EXPECT_EQ(found, of_own) << "the bits must not depend on the memory of the gradients";
        }
      }
    }
  }
}

TEST_F(GpuGradients, MatchTheCpuWithoutTheDeterministicOption) {
  for (const auto& [shape, batch] : kCases) {
    const Text text(shape, batch, 4);
    Model cpu(shape, batch, DType::fp32, {.threads = 2});
    Model gpu(shape, batch, DType::bf16, {.device = Device::cuda, .deterministic = false},
              {.gradients = GradientMemory::shared});
    for (Model* const model : {&cpu, &gpu}) model->begin(7);
    cpu.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    for (int again = 0; again < 3; ++again) {
      SCOPED_TRACE(testing::Message() << "d_model " << shape.d_model << ", run " << again);
      gpu.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
      expect_close(gpu, gradients_of(gpu), gradients_of(cpu), allowed_of(Precision::bf16));
    }
  }
}

void expect_sums(const ModelShape& shape, std::int64_t batch) {
  const Text text(shape, batch, 3);
  Model cpu(shape, batch, DType::fp32, {.threads = 2}), gpu(shape, batch, DType::fp32, {.device = Device::cuda});
  for (Model* const model : {&cpu, &gpu}) model->begin(1);
  for (int again = 0; again < 3; ++again) {
    const double loss = cpu.loss(text.tokens.data(), text.targets.data());
    EXPECT_NEAR(gpu.loss(text.tokens.data(), text.targets.data()), loss, 1e-5 * loss);
    EXPECT_NEAR(gpu.loss_with_gradients(text.tokens.data(), text.targets.data(), 2), loss, 1e-5 * loss);
    cpu.loss_with_gradients(text.tokens.data(), text.targets.data(), 2);
    EXPECT_NEAR(gpu.gradient_norm() / cpu.gradient_norm(), 1, 1e-4);
    expect_close(gpu, gradients_of(gpu), gradients_of(cpu), allowed_of(Precision::fp32));
  }
  EXPECT_THROW(gpu.gradients(), Error);
}

TEST_F(GpuGradients, AddUp) {
  for (const std::size_t i : kLarge) expect_sums(kCases[i].shape, kCases[i].batch);
}

// The callback copies each gradient on another stream when the backward reports it. The copy must equal the final
// gradient, and callbacks must change no bit.
void expect_final(const ModelShape& shape, std::int64_t batch) {
  const Text text(shape, batch, 3);
  const ModelOptions cases[] = {{.gradients = GradientMemory::own},
                                {.gradients = GradientMemory::shared},
                                {.gradients = GradientMemory::shared, .recompute = Recompute::attention},
                                {.gradients = GradientMemory::shared, .recompute = Recompute::block}};
  for (const ModelOptions& options : cases) {
    Model model(shape, batch, DType::fp32, {.device = Device::cuda}, options);
    model.begin(7);
    const double loss = model.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    const std::vector<float> unwatched = gradients_of(model);
    const GpuStream side;
    std::vector<GpuEvent> ready(model.parameters().size());
    const GpuBuffer copies(unwatched.size() * sizeof(float));
    std::vector<std::size_t> reported;
    model.on_gradient_ready([&](std::size_t index) {
      const Parameter& parameter = model.parameters()[index];
      ready[index].record(*model.stream());
      side.wait_for(ready[index]);
      side.copy(copies.as<float>() + parameter.first, model.placed_gradients() + parameter.first,
                float_bytes(parameter.count()));
      reported.push_back(index);
    });
    for (int again = 0; again < 3; ++again) {  // without callbacks the third run would replay a graph
      reported.clear();
      EXPECT_EQ(model.loss_and_lone_gradients(text.tokens.data(), text.targets.data()), loss);
      side.synchronize();
      ASSERT_EQ(reported.size(), model.parameters().size());
      for (std::size_t i = 0; i < reported.size(); ++i) EXPECT_EQ(reported[i], reported.size() - 1 - i);
      std::vector<float> then(unwatched.size());
      copies.copy_to_host(then.data(), copies.bytes());
      EXPECT_TRUE(then == unwatched);
      EXPECT_TRUE(gradients_of(model) == unwatched);
    }
    model.on_gradient_ready({});
    model.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    EXPECT_EQ(reported.size(), model.parameters().size());
  }
}

TEST_F(GpuGradients, AreFinalWhenReported) {
  for (const std::size_t i : kLarge) expect_final(kCases[i].shape, kCases[i].batch);
}

}  // namespace
}  // namespace strobe::lm
