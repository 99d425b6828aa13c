// Compares operations of src/ops with results and gradients that tools/golden computed with PyTorch in float64.
// Every dtype represents the inputs exactly, so only the rounding of an operation differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/gpu_tensors.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/rope.h"
#include "ops/tensors.h"
#include "support/fields.h"
#include "support/gpu.h"
#include "support/isa_scope.h"

namespace strobe::ops {
namespace {

// Returns the values of draw() of tools/golden.
std::vector<double> drawn(std::uint32_t number, std::int64_t count, double scale = 1) {
  std::vector<double> values;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t h = i * 0x9e3779b1u + number * 0x85ebca6bu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    values.push_back((static_cast<double>((h ^ h >> 15) % 257) - 128) / 64 * scale);
  }
  return values;
}

// Returns the values of tokens() of tools/golden.
std::vector<std::int32_t> drawn_tokens(std::int32_t count, std::int32_t below) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t t = 0; t < count; ++t) tokens.push_back((7 * t * t + 3 * t) % below);
  return tokens;
}

// Values on the host (Values or a vector). If `gpu` is not null, also a copy on the GPU, which data() then returns.
template <class Host>
class Placed {
 public:
  Placed(const Gpu* gpu, Host host) : host_(std::move(host)) {
    if (gpu) there_.emplace(*gpu, host_);
  }
  void* data() { return there_ ? there_->data() : host_.data(); }
  template <class T = float>
  T* as() {
    return static_cast<T*>(data());
  }
  const Host& read() {
    if (there_) there_->read(host_);
    return host_;
  }

 private:
  Host host_;
  std::optional<OnGpu> there_;
};
using Tensor = Placed<Values>;

constexpr const char* kGoldenPath = STROBE_TEST_DATA "/ops/golden.txt";

// Runs the operations in one type on one device and compares them with the golden values.
class GoldenComparison {
 public:
  GoldenComparison(const test::Fields& golden, DType dtype, const Gpu* gpu = nullptr)
      : golden_(golden),
        dtype_(dtype),
        gpu_(gpu),
        execution_(gpu ? gpu->execution() : ExecutionContext{.threads = 2}) {}

  void run_all() {
    run_linear("linear", {.rows = 19, .in = 17, .out = 11, .dtype = dtype_});
    run_linear("linear_few_rows", {.rows = 3, .in = 17, .out = 11, .dtype = dtype_});
    run_rms_norm();
    run_layer_norm();
    run_gelu();
    run_swiglu();
    run_rope();
    run_embedding();
    run_cross_entropy();
    run_adamw();
    for (const auto& [name, values] : golden_) EXPECT_TRUE(compared_.contains(name)) << name << " is not compared";
  }

 private:
  static constexpr std::int64_t kRows = 3, kWidth = 37, kCount = kRows * kWidth;  // size for operations on rows

  Tensor input(std::uint32_t number, std::int64_t count, double scale = 1) const {
    return {gpu_, Values(dtype_, drawn(number, count, scale))};
  }
  Tensor floats(const std::vector<double>& values) const { return {gpu_, Values(DType::fp32, values)}; }
  // Returns NaN values, because an operation must write every element of an output.
  static std::vector<double> unwritten(std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN());
  }
  Tensor output(std::int64_t count) const { return {gpu_, Values(dtype_, unwritten(count))}; }
  Tensor float_output(std::int64_t count) const { return floats(unwritten(count)); }

  void expect(const std::string& name, Tensor& found) { expect(name, found.read().widened(), found.read().dtype()); }

  // The error is relative to the largest expected value, because terms of sums may cancel.
  void expect(const std::string& name, const std::vector<double>& found, DType dtype) {
    const auto field = golden_.find(name);
    if (field == golden_.end()) FAIL() << kGoldenPath << ": no field " << name << "; tools/golden writes it";
    compared_.insert(name);
    const std::vector<double>& expected = field->second;
    ASSERT_EQ(found.size(), expected.size()) << name;
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    const double allowed = largest * (dtype != DType::fp32 ? unit_of(dtype) : gpu_ ? 1e-5 : 1e-6);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], allowed) << name << " [" << i << "] in " << name_of(dtype);
    }
  }

  void run_linear(const std::string& name, const Linear& shape) {
    const auto& [rows, in, out, dtype] = shape;
    Tensor x = input(1, rows * in), weight = input(2, out * in), bias = input(3, out), dy = input(4, rows * out);
    Tensor y = output(rows * out), dx = output(rows * in), dweight = float_output(out * in), dbias = float_output(out);
    linear(execution_, shape, x.data(), weight.data(), y.data(), {.bias = bias.data()});
    linear_backward_input(execution_, shape, dy.data(), weight.data(), dx.data(), Into::set);
    linear_backward_weight(execution_, shape, dy.data(), x.data(), dweight.as(), Into::set);
    column_sums(execution_, {.rows = rows, .columns = out, .dtype = dtype}, dy.data(), dbias.as(), Into::set);
    expect(name + "/y", y);
    expect(name + "/dx", dx);
    expect(name + "/dweight", dweight);
    expect(name + "/dbias", dbias);
  }

  void run_rms_norm() {
    const RmsNorm norm{.rows = kRows, .width = kWidth, .eps = 0.125f, .dtype = dtype_};
    Tensor x = input(1, kCount), weight = floats(drawn(2, kWidth)), dy = input(3, kCount);
    Tensor y = output(kCount), inverse = float_output(kRows), dx = output(kCount), dweight = float_output(kWidth);
    rms_norm(execution_, norm, x.data(), weight.as(), y.data(), inverse.as());
    rms_norm_backward(execution_, norm,
                      {.x = x.data(),
                       .weight = weight.as(),
                       .inverse = inverse.as(),
                       .dy = dy.data(),
                       .dx = dx.data(),
                       .dweight = dweight.as(),
                       .dweight_into = Into::set});
    expect("rms_norm/y", y);
    expect("rms_norm/dx", dx);
    expect("rms_norm/dweight", dweight);
  }

  void run_layer_norm() {
    const LayerNorm norm{.rows = kRows, .width = kWidth, .eps = 0.125f, .dtype = dtype_};
    Tensor x = input(1, kCount), weight = floats(drawn(2, kWidth)), bias = floats(drawn(3, kWidth)),
           dy = input(4, kCount);
    Tensor y = output(kCount), statistics = float_output(2 * kRows), dx = output(kCount),
           dweight = float_output(kWidth), dbias = float_output(kWidth);
    layer_norm(execution_, norm,
               {.x = x.data(), .weight = weight.as(), .bias = bias.as(), .y = y.data(), .statistics = statistics.as()});
    layer_norm_backward(execution_, norm,
                        {.x = x.data(),
                         .weight = weight.as(),
                         .statistics = statistics.as(),
                         .dy = dy.data(),
                         .dx = dx.data(),
                         .dweight = dweight.as(),
                         .dbias = dbias.as(),
                         .parameters_into = Into::set});
    expect("layer_norm/y", y);
    expect("layer_norm/dx", dx);
    expect("layer_norm/dweight", dweight);
    expect("layer_norm/dbias", dbias);
  }

  void run_gelu() {
    const Gelu shape{.rows = kRows, .width = kWidth, .dtype = dtype_};
    Tensor x = input(1, kCount, 4), dy = input(2, kCount), y = output(kCount), dx = output(kCount);
    gelu(execution_, shape, x.data(), y.data());
    gelu_backward(execution_, shape, x.data(), dy.data(), dx.data());
    expect("gelu/y", y);
    expect("gelu/dx", dx);
  }

  void run_swiglu() {
    const Swiglu shape{.rows = kRows, .width = kWidth, .dtype = dtype_};
    Tensor ab = input(1, 2 * kCount, 4), dy = input(2, kCount), y = output(kCount), dab = output(2 * kCount);
    swiglu(execution_, shape, ab.data(), y.data());
    swiglu_backward(execution_, shape, ab.data(), dy.data(), dab.data());
    expect("swiglu/y", y);
    expect("swiglu/dab", dab);
  }

  void run_rope() {
    const Rope shape{.tokens = 5, .heads = 2, .head_dim = 18, .context = 3, .first_position = 4, .dtype = dtype_};
    const std::int64_t count = shape.tokens * shape.heads * shape.head_dim;
    Tensor x = input(1, count), dy = input(2, count);
    const std::vector<float> table = rope_table(shape.first_position + shape.context, shape.head_dim);
    Placed placed_table(gpu_, table);
    rope(execution_, shape, placed_table.as(), x.data(), Rotation::forward);
    rope(execution_, shape, placed_table.as(), dy.data(), Rotation::back);
    expect("rope/y", x);
    expect("rope/dx", dy);
  }

  void run_embedding() {
    const std::int64_t sequences = 3, context = 4, vocabulary = 7, width = 19, tokens = sequences * context;
    const Embedding shape{.tokens = tokens, .vocabulary = vocabulary, .width = width, .dtype = dtype_};
    Placed token(gpu_, drawn_tokens(tokens, vocabulary - 2));
    Tensor table = floats(drawn(1, vocabulary * width)), positions = floats(drawn(2, context * width)),
           dy = input(3, tokens * width);
    Tensor y = output(tokens * width), dtable = float_output(vocabulary * width),
           dpositions = float_output(context * width);
    embedding(execution_, shape, token.as<std::int32_t>(), table.as(), y.data(),
              {.table = positions.as(), .context = context});
    embedding_backward(execution_, shape, token.as<std::int32_t>(), dy.data(), dtable.as(), Into::set);
    column_sums(execution_, {.rows = sequences, .columns = context * width, .dtype = dtype_}, dy.data(),
                dpositions.as(), Into::set);
    expect("embedding/y", y);
    expect("embedding/dtable", dtable);
    expect("embedding/dpositions", dpositions);
  }

  void run_cross_entropy() {
    const CrossEntropy shape{.rows = 5, .vocabulary = 37, .dtype = dtype_, .gradient_scale = 0.5f};
    Placed target(gpu_, drawn_tokens(5, 37));
    Tensor logits = input(1, 5 * 37, 4), losses = float_output(5), losses_again = float_output(5);
    cross_entropy(execution_, shape, logits.data(), target.as<std::int32_t>(), losses.as());
    cross_entropy_with_gradient(execution_, shape, logits.data(), target.as<std::int32_t>(), losses_again.as());
    expect("cross_entropy/losses", losses);
    expect("cross_entropy/losses", losses_again);
    expect("cross_entropy/dlogits", logits);
  }

  // Runs three AdamW steps on two tensors and compares the state after each step. Gradients are clipped by the norm
  // over both tensors.
  void run_adamw() {
    const auto zeros = [&](std::size_t count) { return floats(std::vector<double>(count)); };
    Tensor value[] = {floats(drawn(0, 37)), floats(drawn(1, 5))};
    Tensor mean[] = {zeros(37), zeros(5)}, variance[] = {zeros(37), zeros(5)};
    std::vector<double> norms, values, means, variances;
    const auto append = [](std::vector<double>& to, Tensor& tensor) {
      const std::vector<double> found = tensor.read().widened();
      to.insert(to.end(), found.begin(), found.end());
    };
    for (std::uint32_t step = 1; step <= 3; ++step) {
      const double scale = step == 2 ? 1.0 / 64 : 1;  // makes the gradient too small to be clipped
      Tensor gradient[] = {floats(drawn(10 * step, 37, scale)), floats(drawn(10 * step + 1, 5, scale))};
      const Trained tensors[] = {{37, value[0].as(), gradient[0].as(), mean[0].as(), variance[0].as()},
                                 {5, value[1].as(), gradient[1].as(), mean[1].as(), variance[1].as()}};
      Update update = update_of({.rate = 0.05, .beta1 = 0.9, .beta2 = 0.99, .eps = 0.01, .decay = 0.1, .step = step});
      update.most = 1;
      Placed placed_update(gpu_, std::vector<Update>{update});
      limit_gradients(execution_, tensors, placed_update.as<Update>());
      adamw(execution_, placed_update.as<Update>(), tensors);
      norms.push_back(placed_update.read()[0].norm);
      for (const std::size_t t : {0u, 1u}) {
        append(values, value[t]);
        append(means, mean[t]);
        append(variances, variance[t]);
      }
    }
    expect("adamw/norm", norms, DType::fp32);
    expect("adamw/value", values, DType::fp32);
    expect("adamw/mean", means, DType::fp32);
    expect("adamw/variance", variances, DType::fp32);
  }

  const test::Fields& golden_;
  std::set<std::string> compared_;
  const DType dtype_;
  const Gpu* const gpu_;  // null: the CPU
  const ExecutionContext execution_;
};

TEST(Golden, OperationsEqualPyTorch) {
  const test::Fields golden = test::read_fields(kGoldenPath);
  if (HasFailure()) return;
  for (const std::string& name : test::available_isas()) {
    SCOPED_TRACE(name);
    const test::IsaScope scope(name);
    for (const DType dtype : kTypes) GoldenComparison(golden, dtype).run_all();
  }
}

using GpuGolden = test::GpuTest;

TEST_F(GpuGolden, OperationsEqualPyTorch) {
  const test::Fields golden = test::read_fields(kGoldenPath);
  if (HasFailure()) return;
  for (const bool deterministic : {true, false}) {
    const Gpu gpu(deterministic);
    for (const DType dtype : kTypes) GoldenComparison(golden, dtype, &gpu).run_all();
  }
}

}  // namespace
}  // namespace strobe::ops
