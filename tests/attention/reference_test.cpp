// Tests the oracle itself: gradients by finite differences in float64, closed forms, rows without keys, isolation of
// NaN, and the same bits for any number of threads.
#include "attention/reference/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "attention/validate.h"
#include "core/half.h"
#include "core/philox.h"
#include "strobe/attention.h"
#include "support/data.h"

namespace strobe {
namespace {

using test::Case;
using test::Data;
using test::Lengths;
using test::Tensor;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t size_of_shape(const test::Shape& shape) { return static_cast<std::size_t>(test::count_of(shape)); }

struct Exact {
  std::vector<double> o, lse, dq, dk, dv, dbias, dsinks;
};

Problem problem_of(const Data& data, int threads) {
  Problem problem = validate_query(data.attention(), Pass::forward, {.threads = threads});
  data.complete(problem);
  return problem;
}

void run_forward(const Data& data, Exact& out, int threads = 1) {
  const auto shape = data.shape_o();
  out.o.assign(size_of_shape(shape), NAN);
  out.lse.assign(size_of_shape({shape[0], shape[1], shape[2], 1}), NAN);
  reference::forward64(problem_of(data, threads), out.o.data(), out.lse.data());
}

Exact run(const Data& data, int threads = 1) {
  Exact out;
  run_forward(data, out, threads);
  out.dq.assign(size_of_shape(data.shape_q()), NAN);
  out.dk.assign(size_of_shape(data.shape_k()), NAN);
  out.dv.assign(size_of_shape(data.shape_v()), NAN);
  if (data.c.bias) out.dbias.assign(size_of_shape(data.c.bias_dims()), NAN);
  if (data.c.sinks) out.dsinks.assign(static_cast<std::size_t>(data.c.heads_q), NAN);
  reference::backward64(problem_of(data, threads), {.dq = out.dq.data(),
                                                    .dk = out.dk.data(),
                                                    .dv = out.dv.data(),
                                                    .dbias = data.c.bias ? out.dbias.data() : nullptr,
                                                    .dsinks = data.c.sinks ? out.dsinks.data() : nullptr});
  return out;
}

// Returns sum(O * dO) + sum(LSE * d_lse) over the rows that exist: the loss whose gradients are tested.
double loss(const Data& data) {
  Exact out;
  run_forward(data, out);
  const std::vector<double> d_o = data.d_o.gather();
  double sum = 0;
  for (std::size_t i = 0; i < d_o.size(); ++i) {
    if (!std::isnan(d_o[i])) sum += out.o[i] * d_o[i];  // NaN marks rows past a length
  }
  if (!data.c.d_lse) return sum;
  const std::vector<double> d_lse = data.d_lse.gather();
  for (std::size_t i = 0; i < d_lse.size(); ++i) {
    if (!std::isnan(d_lse[i]) && std::isfinite(out.lse[i])) sum += out.lse[i] * d_lse[i];
  }
  return sum;
}

// Rounds the inputs to multiples of 1/32, so that adding a step of 2^-8 is exact in float.
void coarsen(Data& data) {
  const auto snap = [](float value) { return std::round(value * 32) / 32; };
  for (Tensor* tensor : {&data.q, &data.k, &data.v, &data.d_o, &data.bias, &data.d_lse}) {
    if (!tensor->buffer) continue;
    test::for_each(tensor->view.shape,
                   [&](auto b, auto h, auto s, auto c) { tensor->set(b, h, s, c, snap(tensor->at(b, h, s, c))); });
  }
  for (float& sink : data.sinks) sink = snap(sink);
}

// Returns d loss / d value by a fourth-order central difference; put(x) sets the value.
double difference(const Data& data, float value, const std::function<void(float)>& put) {
  constexpr float kStep = 0x1p-8f;
  const auto at = [&](float x) {
    put(x);
    return loss(data);
  };
  const double near = at(value + kStep) - at(value - kStep);
  const double far = at(value + 2 * kStep) - at(value - 2 * kStep);
  put(value);
  return (8 * near - far) / (12.0 * kStep);
}

void expect_gradient(const Data& data, Tensor& tensor, const std::vector<double>& gradient, const char* name) {
  std::size_t at = 0;
  test::for_each(tensor.view.shape, [&](auto b, auto h, auto s, auto c) {
    const float value = tensor.at(b, h, s, c);
    const double exact = gradient[at++];
    if (!std::isfinite(value)) {  // elements past a length, or a bias of -inf
      EXPECT_EQ(exact, 0) << name << "[" << at - 1 << "]";
      return;
    }
    const double measured = difference(data, value, [&](float x) { tensor.set(b, h, s, c, x); });
    EXPECT_NEAR(exact, measured, 2e-8) << name << "[" << at - 1 << "]";
  });
}

void check_gradients(const Case& c) {
  SCOPED_TRACE(describe(c));
  Data data(c);
  coarsen(data);
  const Exact exact = run(data);
  expect_gradient(data, data.q, exact.dq, "dq");
  expect_gradient(data, data.k, exact.dk, "dk");
  expect_gradient(data, data.v, exact.dv, "dv");
  if (c.bias) expect_gradient(data, data.bias, exact.dbias, "dbias");
  for (std::size_t h = 0; h < data.sinks.size(); ++h) {
    const double measured = difference(data, data.sinks[h], [&](float x) { data.sinks[h] = x; });
    EXPECT_NEAR(exact.dsinks[h], measured, 2e-8) << "dsinks[" << h << "]";
  }
}

Case small() { return test::parse_case("h2 s4x5 d3/2 align=bottom_right"); }

template <class Change>
Case changed(Change change) {
  Case c = small();
  change(c);
  return c;
}

TEST(ReferenceGradients, Masks) {
  check_gradients(small());
  check_gradients(changed([](Case& c) { c.causal = true; }));
  check_gradients(changed([](Case& c) { c.causal = true, c.alignment = Alignment::top_left; }));
  check_gradients(changed([](Case& c) { c.causal = true, c.sq = 6, c.sk = 3; }));  // some rows have no keys
  check_gradients(changed([](Case& c) { c.window = {1, 1}; }));
  check_gradients(changed([](Case& c) { c.window = {2, -1}, c.causal = true, c.alignment = Alignment::top_left; }));
  check_gradients(changed([](Case& c) { c.batch = 2, c.heads_q = 4; }));
  check_gradients(changed([](Case& c) { c.heads_q = 3, c.heads_kv = 1, c.scale = -1.5f; }));
}

TEST(ReferenceGradients, ScoreOptions) {
  check_gradients(changed([](Case& c) { c.softcap = 0.75f; }));
  check_gradients(changed([](Case& c) { c.alibi = true; }));
  check_gradients(changed([](Case& c) { c.sinks = true, c.causal = true, c.sq = 6; }));
  check_gradients(changed([](Case& c) { c.dropout = 0.4f, c.seed = 7; }));
  for (int shape = 0; shape < 8; ++shape) {
    check_gradients(changed([shape](Case& c) {
      c.batch = 2, c.bias = true;
      c.bias_shape = {.batch = (shape & 1) != 0, .heads = (shape & 2) != 0, .rows = (shape & 4) != 0};
      if (shape == 7) c.bias_values = test::BiasValues::rows_minus_inf;
      if (shape == 4) c.bias_values = test::BiasValues::some_minus_inf;
    }));
  }
}

TEST(ReferenceGradients, Lengths) {
  check_gradients(changed([](Case& c) {
    c.batch = 3, c.lengths = Lengths::both, c.causal = true;
    c.lengths_q = {4, 0, 2}, c.lengths_k = {3, 5, 4};
  }));
  check_gradients(changed([](Case& c) {
    c.batch = 3, c.lengths = Lengths::packed, c.window = {2, 1};
    c.lengths_q = {4, 0, 2}, c.lengths_k = {3, 2, 5};
  }));
}

TEST(ReferenceGradients, BooleanMasks) {
  check_gradients(test::parse_case("b2 h2 s6x7 d3/2 mask=bhqk seed=3"));
  check_gradients(
      test::parse_case("b2 h2/1 s6x7 d3/2 mask=11qk mask_transposed causal=bottom_right sinks d_lse seed=4"));
  check_gradients(test::parse_case("b3 h2 s5x6 d3/2 mask=b11k bias=bhqk softcap=2 seed=5"));
  check_gradients(test::parse_case("b2 h2 s12x4 d3/2 mask=1hq1 dropout=0.3 seed=6"));
  check_gradients(test::parse_case("b3 h2 s4x5 d3/2 mask=bhqk packed lengths_q=4,0,2 lengths_k=3,2,5 seed=7"));
}

TEST(ReferenceGradients, LeftPadding) {
  check_gradients(test::parse_case("b3 h2 s5x6 d3/2 first_keys=0,4,6 causal=bottom_right alibi alibi_batch seed=3"));
  check_gradients(test::parse_case("b2 h2 s5x6 d3/2 first_keys=2,1 window=2:1 align=top_left bias=bhqk seed=4"));
  check_gradients(test::parse_case("b2 h2 s5x6 d3/2 first_keys=2,3 lengths_k=5,2 dropout=0.4 mask=bhqk seed=5"));
  check_gradients(test::parse_case("b2 h2 s4x5 d3/2 first_keys=1,2 packed lengths_q=4,2 lengths_k=3,5 seed=6"));
}

TEST(ReferenceGradients, GradientOfLse) {
  check_gradients(changed([](Case& c) { c.d_lse = true, c.causal = true, c.sinks = true; }));
  // some rows have no keys
  check_gradients(changed([](Case& c) { c.d_lse = true, c.causal = true, c.sq = 6, c.sk = 3; }));
  check_gradients(
      changed([](Case& c) { c.d_lse = true, c.softcap = 0.75f, c.dropout = 0.3f, c.layout_lse = test::Layout::bshd; }));
}

TEST(ReferenceGradients, ManyFeaturesTogether) {
  const auto all = [](Case& c) {
    c.batch = 2, c.heads_q = 4, c.causal = true, c.window = {3, -1}, c.softcap = 2, c.alibi = true, c.sinks = true;
    c.bias = true, c.bias_shape = {.batch = true, .rows = true}, c.dropout = 0.25f, c.seed = 3;
    c.lengths_q = {4, 3}, c.lengths_k = {5, 4};
  };
  check_gradients(changed([&](Case& c) { all(c), c.lengths = Lengths::both; }));
  check_gradients(changed([&](Case& c) { all(c), c.lengths = Lengths::packed; }));
}

TEST(Reference, UniformProbabilities) {
  Case c = small();
  c.sinks = true;
  Data data(c);
  test::for_each(data.shape_q(), [&](auto b, auto h, auto s, auto e) { data.q.set(b, h, s, e, 0); });
  // Head 0: the sink of logit 0 counts as one more key. Head 1: the sink of logit -inf has no effect.
  data.sinks = {0, -std::numeric_limits<float>::infinity()};
  const Exact out = run(data);
  std::size_t at = 0;
  for (std::int64_t h = 0; h < 2; ++h) {
    const double weight = h == 0 ? 1.0 / 6 : 1.0 / 5;
    for (std::int64_t i = 0; i < c.sq; ++i) {
      EXPECT_NEAR(out.lse[static_cast<std::size_t>(h * c.sq + i)], -std::log(weight), 1e-15);
      for (std::int64_t e = 0; e < c.dv; ++e, ++at) {
        double sum = 0;
        for (std::int64_t j = 0; j < c.sk; ++j) sum += data.v.at(0, h, j, e);
        EXPECT_NEAR(out.o[at], weight * sum, 1e-15);
      }
    }
  }
}

TEST(Reference, DropoutKeepsTheElementsThatPhiloxSelects) {
  Case c = small();
  c.dropout = 0.5f, c.dv = 1, c.sk = 64;
  Data data(c);
  test::for_each(data.shape_q(), [&](auto b, auto h, auto s, auto e) { data.q.set(b, h, s, e, 0); });
  test::for_each(data.shape_v(), [&](auto b, auto h, auto s, auto e) { data.v.set(b, h, s, e, 1); });
  const Exact out = run(data);
  const Dropout dropout = data.attention().dropout;
  for (std::int64_t row = 0; row < 2 * c.sq; ++row) {
    int kept = 0;
    for (std::int64_t j = 0; j < c.sk; ++j) {
      kept += dropout_keeps(dropout.seed, dropout_threshold(dropout.p), 0, row / c.sq, row % c.sq, j) ? 1 : 0;
    }
    EXPECT_NEAR(out.o[static_cast<std::size_t>(row)], kept * 2.0 / 64, 1e-14);
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 64);
  }
}

// Scores are 1024 and 0, so probabilities are exactly 1 and 0. In every kernel and dtype, O is then a row of V, dV a
// sum of rows of dO, and dQ and dK are 0.
void check_one_hot(const char* kernel, DType dtype) {
  SCOPED_TRACE(std::string(kernel) + " " + name_of(dtype));
  const Case c = test::case_from("s21x8 d8/5 {} values=integer scale=1", name_of(dtype));
  Data data(c);
  test::for_each(data.shape_q(),
                 [&](auto, auto, auto i, auto e) { data.q.set(0, 0, i, e, i * 3 % 8 == e ? 32.f : 0.f); });
  test::for_each(data.shape_k(), [&](auto, auto, auto j, auto e) { data.k.set(0, 0, j, e, j == e ? 32.f : 0.f); });
  const auto tensor = [&](const test::Shape& shape) { return test::make_tensor({dtype, shape}); };
  Tensor o = tensor(data.shape_o()), dq = tensor(data.shape_q()), dk = tensor(data.shape_k());
  Tensor dv = tensor(data.shape_v());
  std::vector<float> lse(21, kNan);
  const Execution execution{.kernel = kernel, .threads = 2};
  forward(data.attention(), {.o = o.view, .lse = lse.data()}, execution);
  backward(data.attention(), {.o = o.view, .lse = lse.data(), .d_o = data.d_o.view},
           {.dq = dq.view, .dk = dk.view, .dv = dv.view}, execution);
  for (const float value : lse) EXPECT_EQ(value, 1024);
  test::for_each(data.shape_o(),
                 [&](auto, auto, auto i, auto e) { EXPECT_EQ(o.at(0, 0, i, e), data.v.at(0, 0, i * 3 % 8, e)); });
  test::for_each(data.shape_v(), [&](auto, auto, auto j, auto e) {
    float sum = 0;
    for (std::int64_t i = 0; i < c.sq; ++i) sum += i * 3 % 8 == j ? data.d_o.at(0, 0, i, e) : 0.f;
    EXPECT_EQ(dv.at(0, 0, j, e), sum);
  });
  for (const double value : dq.gather()) EXPECT_EQ(value, 0);
  for (const double value : dk.gather()) EXPECT_EQ(value, 0);
}

TEST(Reference, IntegerValuesAreExact) {
  for (const char* kernel : {"reference", "standard", "frugal", "flash2"}) {
    for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) check_one_hot(kernel, dtype);
  }
}

TEST(Reference, RowsWithoutKeys) {
  Case c = small();
  c.causal = true, c.sq = 6, c.sk = 2, c.sinks = true, c.bias = true, c.bias_shape = {.rows = true};
  const Data data(c);  // bottom-right causal: rows 0 to 3 see no key
  const Exact out = run(data);
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(out.lse[h * 6 + i] == -kInf, i < 4) << i;
      for (std::size_t e = 0; e < 2 && i < 4; ++e) EXPECT_EQ(out.o[(h * 6 + i) * 2 + e], 0);
      for (std::size_t e = 0; e < 3 && i < 4; ++e) EXPECT_EQ(out.dq[(h * 6 + i) * 3 + e], 0);
      for (std::size_t j = 0; j < 2 && h == 0 && i < 4; ++j) EXPECT_EQ(out.dbias[i * 2 + j], 0);
    }
  }
}

TEST(Reference, NoKeysOrNoRowsGiveZeros) {
  const Exact no_keys = run(Data(changed([](Case& c) { c.sk = 0, c.causal = true; })));
  for (const double value : no_keys.o) EXPECT_EQ(value, 0);
  for (const double value : no_keys.lse) EXPECT_EQ(value, -kInf);
  for (const double value : no_keys.dq) EXPECT_EQ(value, 0);
  const Exact no_rows = run(Data(changed([](Case& c) { c.sq = 0, c.sinks = true; })));
  EXPECT_EQ(no_rows.dk.size(), 30u);
  for (const auto* values : {&no_rows.dk, &no_rows.dv, &no_rows.dsinks}) {
    for (const double value : *values) EXPECT_EQ(value, 0);
  }
}

// Puts a NaN in one row of K, V, Q or dO. Results that use the NaN must change; all others must equal the results
// without the NaN.
TEST(Reference, NanAffectsOnlyRowsThatUseIt) {
  constexpr std::int64_t kKey = 3, kRow = 5;
  const Case c = changed([](Case& s) { s.causal = true, s.sq = s.sk = 8, s.heads_q = s.heads_kv = 1; });
  const Exact clean = run(Data(c));
  const auto same = [](const std::vector<double>& a, const std::vector<double>& b, std::int64_t row, std::size_t cols) {
    for (std::size_t e = 0; e < cols; ++e) {
      if (a[static_cast<std::size_t>(row) * cols + e] != b[static_cast<std::size_t>(row) * cols + e]) return false;
    }
    return true;
  };
  for (Tensor Data::*member : {&Data::k, &Data::v}) {
    Data data(c);
    (data.*member).set(0, 0, kKey, 1, kNan);
    const Exact out = run(data);
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(same(out.o, clean.o, i, 2), i < kKey) << i;
      EXPECT_EQ(same(out.dq, clean.dq, i, 3), i < kKey) << i;
      EXPECT_EQ(std::isnan(out.lse[static_cast<std::size_t>(i)]), member == &Data::k && i >= kKey) << i;
    }
  }
  for (Tensor Data::*member : {&Data::q, &Data::d_o}) {
    Data data(c);
    (data.*member).set(0, 0, kRow, 1, kNan);
    const Exact out = run(data);
    for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(same(out.dq, clean.dq, i, 3), i != kRow) << i;
    for (std::int64_t j = 0; j < 8; ++j) {
      EXPECT_EQ(same(out.dk, clean.dk, j, 3), j > kRow) << j;
      EXPECT_EQ(same(out.dv, clean.dv, j, 2), j > kRow) << j;
    }
  }
}

TEST(Reference, SameBitsForAnyNumberOfThreads) {
  const Data data(changed([](Case& c) {
    c.batch = 2, c.heads_q = 4, c.sq = 70, c.sk = 90, c.d = 20, c.causal = true, c.sinks = true, c.dropout = 0.1f;
    c.bias = true;
  }));
  const Exact one = run(data, 1);
  for (const int threads : {2, 3, 7}) {
    const Exact many = run(data, threads);
    EXPECT_EQ(one.o, many.o);
    EXPECT_EQ(one.lse, many.lse);
    EXPECT_EQ(one.dq, many.dq);
    EXPECT_EQ(one.dk, many.dk);
    EXPECT_EQ(one.dv, many.dv);
    EXPECT_EQ(one.dbias, many.dbias);
    EXPECT_EQ(one.dsinks, many.dsinks);
  }
}

// The kernel `reference` returns the float64 result, rounded to fp32 and then to the type.
TEST(Reference, KernelRoundsOnlyItsResults) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    const Data data(changed([dtype](Case& c) { c.dtype = dtype, c.softcap = 3, c.heads_q = 4; }));
    const Exact exact = run(data);
    Tensor o = test::make_tensor({dtype, data.shape_o(), test::Layout::bshd});
    Tensor dq = test::make_tensor({dtype, data.shape_q()}), dk = test::make_tensor({dtype, data.shape_k()});
    Tensor dv = test::make_tensor({dtype, data.shape_v(), test::Layout::padded});
    std::vector<float> lse(exact.lse.size(), kNan);
    const Execution execution{.kernel = "reference", .threads = 2};
    forward(data.attention(), {.o = o.view, .lse = lse.data()}, execution);
    backward(data.attention(), {.o = o.view, .lse = lse.data(), .d_o = data.d_o.view},
             {.dq = dq.view, .dk = dk.view, .dv = dv.view}, execution);
    const auto rounded = [dtype](std::vector<double> values) {
      for (double& value : values) value = round_to(dtype, static_cast<float>(value));
      return values;
    };
    EXPECT_EQ(o.gather(), rounded(exact.o));
    EXPECT_EQ(dq.gather(), rounded(exact.dq));
    EXPECT_EQ(dk.gather(), rounded(exact.dk));
    EXPECT_EQ(dv.gather(), rounded(exact.dv));
    for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_EQ(lse[i], static_cast<float>(exact.lse[i]));
  }
}

}  // namespace
}  // namespace strobe
