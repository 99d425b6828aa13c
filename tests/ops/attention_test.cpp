// Tests ops/attention, which stores the scores, against the library's float64 reference.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <array>

#include "device/host/allocator.h"
#include "ops/cpu/softmax.h"
#include "ops/differences.h"
#include "ops/tensors.h"
#include "strobe/attention.h"

namespace strobe::ops {
namespace {

constexpr MaterialisedAttention kShape{.batch = 2, .heads = 3, .context = 21, .head_dim = 10};

std::size_t output_count(const MaterialisedAttention& shape) {
  return static_cast<std::size_t>(shape.batch * shape.context * shape.heads * shape.head_dim);
}
std::size_t score_count(const MaterialisedAttention& shape) {
  return static_cast<std::size_t>(shape.batch * shape.heads * shape.context * shape.context);
}

// Results of both passes of the library's float64 reference.
struct Reference {
  Values o, d_qkv;

  Reference(const MaterialisedAttention& shape, const Values& qkv, const Values& d_o)
      : o(shape.dtype, output_count(shape)), d_qkv(shape.dtype, 3 * output_count(shape)) {
    const std::array<std::int64_t, 4> heads{shape.batch, shape.heads, shape.context, shape.head_dim};
    const auto in = [&](int which) { return view_packed_qkv<const void>(qkv.data(), shape.dtype, heads, which); };
    const auto out = [&](int which) { return view_packed_qkv<void>(d_qkv.data(), shape.dtype, heads, which); };
    const Attention problem{.q = in(0), .k = in(1), .v = in(2), .causal = true};
    std::vector<float> lse(static_cast<std::size_t>(shape.batch * shape.heads * shape.context));
    strobe::forward(problem, {.o = view_bshd<void>(o.data(), shape.dtype, heads), .lse = lse.data()},
                    {.kernel = "reference"});
    strobe::backward(problem,
                     {.o = view_bshd<const void>(o.data(), shape.dtype, heads),
                      .lse = lse.data(),
                      .d_o = view_bshd<const void>(d_o.data(), shape.dtype, heads)},
                     {.dq = out(0), .dk = out(1), .dv = out(2)}, {.kernel = "reference"});
  }
};

struct Passes {
  Values probabilities, o, d_scores, d_qkv;

  Passes(const ExecutionContext& execution, const MaterialisedAttention& shape, const Values& qkv, const Values& d_o)
      : probabilities(shape.dtype, std::vector<double>(score_count(shape), 7)),
        o(shape.dtype, output_count(shape)),
        d_scores(shape.dtype, std::vector<double>(score_count(shape), 7)),
        d_qkv(shape.dtype, 3 * output_count(shape)) {
    attention(execution, shape, qkv.data(), probabilities.data(), o.data());
    attention_backward(execution, shape,
                       {.qkv = qkv.data(),
                        .probabilities = probabilities.data(),
                        .d_o = d_o.data(),
                        .d_scores = d_scores.data(),
                        .d_qkv = d_qkv.data()});
  }
};

void expect_near(const char* what, const Values& found, const Values& expected, double tolerance) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << ' ' << name_of(found.dtype()) << ' ' << i;
  }
}

TEST(Attention, BothPassesEqualTheReferenceInEveryType) {
  for (const DType dtype : kTypes) {
    MaterialisedAttention shape = kShape;
    shape.dtype = dtype;
    const Values qkv(dtype, normal_values(3 * output_count(shape), 1)),
        d_o(dtype, normal_values(output_count(shape), 2));
    const Passes found({.threads = 2}, shape, qkv, d_o);
    const Reference expected(shape, qkv, d_o);
    const double tolerance = dtype == DType::fp32 ? 2e-6 : 8 * unit_of(dtype);
    expect_near("o", found.o, expected.o, tolerance);
    expect_near("d_qkv", found.d_qkv, expected.d_qkv, tolerance);
  }
}

// The probabilities of a row must add up to 1, and no row may use a later key.
TEST(Attention, ProbabilitiesAreCausal) {
  const Values qkv(DType::fp32, normal_values(3 * output_count(kShape), 1)),
      d_o(DType::fp32, normal_values(output_count(kShape), 2));
  const Passes found({}, kShape, qkv, d_o);
  const auto S = static_cast<std::size_t>(kShape.context);
  for (std::size_t row = 0; row < score_count(kShape) / S; ++row) {
    double sum = 0;
    for (std::size_t key = 0; key < S; ++key) {
      const double p = found.probabilities[row * S + key];
      sum += p;
      EXPECT_EQ(p > 0, key <= row % S) << row << ' ' << key;
      if (key > row % S) {
        EXPECT_EQ(found.d_scores[row * S + key], 0) << row << ' ' << key;
      }
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

// Returns o = P V, computed by float64 softmax_row and plain loops, for the loss of the finite differences.
std::vector<double> exact_output(const MaterialisedAttention& shape, const std::vector<double>& qkv) {
  const auto B = static_cast<std::size_t>(shape.batch), H = static_cast<std::size_t>(shape.heads),
             S = static_cast<std::size_t>(shape.context), D = static_cast<std::size_t>(shape.head_dim);
  std::vector<double> o(B * S * H * D), scores(S);
  const auto row_of = [&](std::size_t b, std::size_t s, std::size_t which, std::size_t h) {
    return qkv.data() + (((b * S + s) * 3 + which) * H + h) * D;
  };
  for (std::size_t b = 0; b < B; ++b) {
    for (std::size_t h = 0; h < H; ++h) {
      for (std::size_t i = 0; i < S; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          scores[j] = 0;
          for (std::size_t d = 0; d < D; ++d) scores[j] += row_of(b, i, 0, h)[d] * row_of(b, j, 1, h)[d];
          scores[j] /= std::sqrt(static_cast<double>(D));
        }
        softmax_row(scores.data(), static_cast<std::int64_t>(i) + 1);
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t d = 0; d < D; ++d) o[((b * S + i) * H + h) * D + d] += scores[j] * row_of(b, j, 2, h)[d];
        }
      }
    }
  }
  return o;
}

TEST(Attention, GradientsByFiniteDifferences) {
  const MaterialisedAttention shape{.batch = 2, .heads = 2, .context = 5, .head_dim = 3};
  const Values qkv(DType::fp32, normal_values(3 * output_count(shape), 1)),
      d_o(DType::fp32, normal_values(output_count(shape), 2));
  const Passes found({}, shape, qkv, d_o);
  const std::vector<double> dy = d_o.widened();
  expect_gradient(
      "qkv", qkv.widened(), found.d_qkv.widened(),
      [&](const std::vector<double>& at) { return dot(exact_output(shape, at), dy); }, 2e-6);
}

TEST(Attention, SoftmaxGradientByFiniteDifferences) {
  const std::vector<double> scores = normal_values(19, 1), dy = normal_values(19, 2);
  std::vector<double> probabilities = scores, gradient = dy;
  softmax_row(probabilities.data(), 19);
  softmax_row_backward(probabilities.data(), gradient.data(), 19);
  expect_gradient("scores", scores, gradient, [&](const std::vector<double>& at) {
    std::vector<double> p = at;
    softmax_row(p.data(), 19);
    return dot(p, dy);
  });
}

TEST(Attention, LargeScoresStayFinite) {
  float scores[] = {1000, 999, -1e30f};
  softmax_row(scores, 3);
  EXPECT_NEAR(scores[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(scores[2], 0);
}

// OpenBLAS computes some of these sizes; the SIMD panels and the kernel for a single row compute the others.
TEST(Attention, SameBitsForAnyNumberOfThreads) {
  for (const std::int64_t context : {1, 7, 130}) {
    for (const DType dtype : kTypes) {
      const MaterialisedAttention shape{.batch = 1, .heads = 2, .context = context, .head_dim = 40, .dtype = dtype};
      const Values qkv(dtype, normal_values(3 * output_count(shape), 1)),
          d_o(dtype, normal_values(output_count(shape), 2));
      const Passes one({.threads = 1}, shape, qkv, d_o), three({.threads = 3}, shape, qkv, d_o);
      EXPECT_TRUE(one.o == three.o && one.probabilities == three.probabilities && one.d_qkv == three.d_qkv) << context;
    }
  }
}

TEST(Attention, AllocatesTheBytesItReports) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t context : {4, 21}) {  // a head has fewer or more scores than outputs
      for (const std::int64_t heads : {1, 3}) {   // with one head the output is contiguous, but not the gradients
        const MaterialisedAttention shape{
            .batch = 2, .heads = heads, .context = context, .head_dim = 10, .dtype = dtype};
        const Values qkv(dtype, 3 * output_count(shape)), d_o(dtype, output_count(shape));
        host_allocator().reset_peak();
        const std::size_t before = host_allocator().statistics().current;
        const Passes passes({}, shape, qkv, d_o);
        EXPECT_EQ(host_allocator().statistics().peak - before, attention_workspace_bytes(shape)) << name_of(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace strobe::ops
