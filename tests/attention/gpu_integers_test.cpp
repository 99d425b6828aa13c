// Tests gradients that must be exact. Scores are 0 (Q and K share no nonzero column) and LSE is given as 0, so every
// probability is 1. All other inputs are small integers, so dQ, dK and dV are sums of integers below 2^24, rounded
// once.
//
// A wrong integer reveals a matmul that reads a tile too early, a register that is reused during an asynchronous
// matmul, or an extra row or key. The test needs kernels that use the given LSE and O, which excludes `standard`,
// `frugal` and CPU kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/gpu.h"
#include "support/random.h"

namespace strobe::test {
namespace {

struct Exact {
  Data data;
  Tensor o, lse;
  Tensor dq, dk, dv;  // expected gradients, rounded to the type
};

// Sets the values that are used. The other elements remain NaN: no kernel may read them.
template <class Value>
void set_used(Tensor& tensor, Value&& value) {
  for_each(tensor.view.shape, [&](auto b, auto h, auto s, auto e) {
    if (!std::isnan(tensor.at(b, h, s, e))) tensor.set(b, h, s, e, value(e));
  });
}

// Computes the expected gradients by their definition, from integers.
void expect_gradients(Exact& exact) {
  const Data& data = exact.data;
  const Case& c = data.c;
  const std::int64_t group = c.heads_q / c.heads_kv;
  const auto zeros = [](const Shape& shape) { return std::vector<double>(static_cast<std::size_t>(count_of(shape))); };
  std::vector<double> dq = zeros(data.shape_q()), dk = zeros(data.shape_k()), dv = zeros(data.shape_v());
  const auto index = [](const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t s) {
    const Shape& shape = tensor.view.shape;
    return static_cast<std::size_t>(((b * shape[1] + h) * shape[2] + s) * shape[3]);
  };
  const auto row_of = [](const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t s) {
    std::vector<double> row;
    for (std::int64_t e = 0; e < tensor.view.shape[3]; ++e) row.push_back(tensor.at(b, h, s, e));
    return row;
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t e = 0; e < a.size(); ++e) sum += a[e] * b[e];
    return sum;
  };
  const auto add = [](std::vector<double>& to, std::size_t at, double factor, const std::vector<double>& row) {
    for (std::size_t e = 0; e < row.size(); ++e) to[at + e] += factor * row[e];
  };
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::int64_t rows = c.seqlen_q(b), keys = c.seqlen_k(b), view = data.view_batch(b);
    const std::int64_t offset = c.alignment == Alignment::bottom_right ? keys - rows : 0;
    const std::int64_t right = c.causal ? 0 : c.window.right;
    for (std::int64_t h = 0; h < c.heads_q; ++h) {
      std::vector<std::vector<double>> k, v;
      for (std::int64_t j = 0; j < keys; ++j) {
        k.push_back(row_of(data.k, view, h / group, data.begin_k(b) + j));
        v.push_back(row_of(data.v, view, h / group, data.begin_k(b) + j));
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t row = data.begin_q(b) + i;
        const auto q = row_of(data.q, view, h, row), d_o = row_of(data.d_o, view, h, row);
        const double delta = dot(d_o, row_of(exact.o, view, h, row));
        for (std::int64_t j = 0; j < keys; ++j) {
          const std::int64_t distance = j - (i + offset);
          if ((c.window.left >= 0 && distance < -c.window.left) || (right >= 0 && distance > right)) continue;
          const auto at = static_cast<std::size_t>(j);
          const double ds = dot(d_o, v[at]) - delta;
          add(dq, index(data.q, view, h, row), ds, k[at]);
          add(dk, index(data.k, view, h / group, data.begin_k(b) + j), ds, q);
          add(dv, index(data.v, view, h / group, data.begin_k(b) + j), 1, d_o);
        }
      }
    }
  }
  const auto rounded = [&](const std::vector<double>& values, const Shape& shape) {
    Tensor tensor = make_tensor({c.dtype, shape});
    std::size_t at = 0;
    for_each(shape, [&](auto b, auto h, auto s, auto e) { tensor.set(b, h, s, e, static_cast<float>(values[at++])); });
    return tensor;
  };
  exact.dq = rounded(dq, data.shape_q());
  exact.dk = rounded(dk, data.shape_k());
  exact.dv = rounded(dv, data.shape_v());
}

Exact make_exact(Case c) {
  c.scale = 1;
  Exact exact{.data = Data(c), .o = {}, .lse = {}, .dq = {}, .dk = {}, .dv = {}};
  Random random(c.seed);
  const auto digit = [&](std::int64_t) { return static_cast<float>(random.between(-1, 1)); };
  Data& data = exact.data;
  const std::int64_t half = c.d / 2;
  set_used(data.q, [&](std::int64_t e) { return e < half ? digit(e) : 0.f; });
  set_used(data.k, [&](std::int64_t e) { return e < half ? 0.f : digit(e); });
  set_used(data.v, digit);
  set_used(data.d_o, digit);
  const Shape shape = data.shape_o();
  exact.o = make_tensor({c.dtype, shape});
  exact.lse = make_tensor({DType::fp32, {shape[0], shape[1], shape[2], 1}});
  for_each(shape, [&](auto b, auto h, auto s, auto e) {
    exact.o.set(b, h, s, e, digit(e));
    if (e == 0) exact.lse.set(b, h, s, 0, 0);
  });
  if (!c.packed()) {  // the backward must not read LSE of rows past a sequence's end
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t h = 0; h < c.heads_q; ++h) {
        for (std::int64_t s = c.seqlen_q(b); s < c.sq; ++s) {
          exact.lse.set(b, h, s, 0, std::numeric_limits<float>::quiet_NaN());
        }
      }
    }
  }
  data.remember();
  expect_gradients(exact);
  return exact;
}

// Returns the first wrong element, or an empty string.
std::string difference(const char* name, const Tensor& expected, const Tensor& got) {
  std::string text;
  for_each(expected.view.shape, [&](auto b, auto h, auto s, auto e) {
    const float want = expected.at(b, h, s, e), is = got.at(b, h, s, e);
    if (text.empty() && !(want == is)) {
      text = fmt::format("{}[{}, {}, {}, {}] is {}, not {}\n", name, b, h, s, e, is, want);
    }
  });
  return text;
}

struct Outputs {
  Tensor dq, dk, dv;
  explicit Outputs(const Data& data)
      : dq(make_tensor({data.c.dtype, data.shape_q()})),
        dk(make_tensor({data.c.dtype, data.shape_k()})),
        dv(make_tensor({data.c.dtype, data.shape_v()})) {}

  void poison() const { dq.buffer->poison(), dk.buffer->poison(), dv.buffer->poison(); }

  std::string difference_to(const Exact& exact) const {
    return difference("dQ", exact.dq, dq) + difference("dK", exact.dk, dk) + difference("dV", exact.dv, dv);
  }
};

// Each case has more keys than kFewKeys of attention/cuda/params.h. With fewer keys the kernels compute delta from the
// probabilities instead of O.
std::vector<Case> cases(std::int64_t d, std::int64_t dv) {
  const Case plain = case_from("h2 s200x330 d{}/{} seed=51", d, dv);
  Case causal = plain, tall = plain, window = plain, packed = plain, padded = plain, many = plain;
  causal.heads_q = 4, causal.causal = true, causal.alignment = Alignment::bottom_right;
  tall.sq = 300, tall.sk = 260, tall.causal = true, tall.alignment = Alignment::top_left;
  window.sq = 330, window.window = {70, 33};
  packed.batch = 4, packed.lengths = Lengths::packed, packed.causal = true, packed.alignment = Alignment::bottom_right;
  packed.lengths_q = {200, 0, 3, 77}, packed.lengths_k = {330, 31, 40, 128};
  padded.batch = 3, padded.lengths = Lengths::both, padded.heads_kv = 1;
  padded.lengths_q = {150, 64, 0}, padded.lengths_k = {129, 330, 70};
  std::vector<Case> all{plain, causal, tall, window, packed, padded};
  // With this many heads hopper does not use a cooperative launch.
  many.heads_q = 560, many.heads_kv = 4, many.sq = 8, many.sk = 140;
  if (d == dv && d % 64 == 0) all.push_back(many);
  return all;
}

struct Dims {
  std::int64_t d, dv;
};

class GpuIntegerGradients : public GpuTest, public testing::WithParamInterface<Dims> {};

// Tests every kernel in the list that supports the case. Returns their number.
int expect_exact(const Case& c, const std::vector<std::string>& kernels, GpuLane& lane) {
  const Exact exact = make_exact(c);
  GpuCase on_gpu(exact.data, lane);
  const View o = on_gpu.upload(exact.o);
  const auto* lse = static_cast<const float*>(on_gpu.upload(exact.lse).data);
  Outputs out(exact.data);
  int taken = 0;
  for (const std::string& kernel : kernels) {
    if (is_plain(kernel)) continue;
    if (!on_gpu.refusal(kernel).empty()) continue;
    ++taken;
    for (const bool deterministic : {true, false}) {
      out.poison();
      Execution execution{
          .device = Device::cuda, .kernel = kernel, .deterministic = deterministic, .stream = lane.stream.handle()};
      const GpuBuffer workspace(workspace_bytes(on_gpu.attention(), Pass::backward, execution));
      execution.workspace = workspace.data();
      execution.workspace_bytes = workspace.bytes();
      backward(on_gpu.attention(), {.o = o, .lse = lse, .d_o = on_gpu.d_o()},
               {.dq = on_gpu.upload(out.dq), .dk = on_gpu.upload(out.dk), .dv = on_gpu.upload(out.dv)}, execution);
      on_gpu.download(out.dq), on_gpu.download(out.dk), on_gpu.download(out.dv);
      EXPECT_EQ(out.difference_to(exact), "")
          << kernel << (deterministic ? ", deterministic: " : ", in any order: ") << describe(c);
    }
  }
  return taken;
}

TEST_P(GpuIntegerGradients, AreExact) {
  GpuLane lane;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (Case c : cases(GetParam().d, GetParam().dv)) {
      c.dtype = dtype;
      EXPECT_GT(expect_exact(c, gpu_kernels(), lane), 0) << describe(c);
    }
  }
}

// With up to 32 rows or 128 keys, fp32 kernels normalize each row instead of using the given LSE, so probabilities
// differ from 1. These cases have more rows and more keys.
std::vector<Case> many_keys(std::int64_t d, std::int64_t dv) {
  const Case plain = case_from("h2 s200x330 d{}/{} fp32 seed=52", d, dv);
  Case causal = plain, window = plain, packed = plain, padded = plain;
  causal.heads_q = 4, causal.causal = true, causal.alignment = Alignment::bottom_right;
  window.sq = 330, window.window = {150, 140};
  packed.batch = 3, packed.lengths = Lengths::packed;
  packed.lengths_q = {200, 0, 77}, packed.lengths_k = {330, 31, 140};
  padded.batch = 2, padded.lengths = Lengths::both, padded.heads_kv = 1;
  padded.lengths_q = {150, 64}, padded.lengths_k = {129, 330};
  return {plain, causal, window, packed, padded};
}

TEST_P(GpuIntegerGradients, AreExactInFp32OnHopper) {
  GpuLane lane;
  const std::vector<Case> all = many_keys(GetParam().d, GetParam().dv);
  const std::string refusal = GpuCase(Data(all[0]), lane).refusal("hopper");
  if (!refusal.empty()) GTEST_SKIP() << refusal;
  for (const Case& c : all) EXPECT_EQ(expect_exact(c, {"hopper"}, lane), 1) << describe(c);
}

INSTANTIATE_TEST_SUITE_P(All, GpuIntegerGradients,
                         testing::Values(Dims{64, 64}, Dims{128, 128}, Dims{256, 256}, Dims{96, 96}, Dims{192, 128},
                                         Dims{32, 32}),
                         [](const auto& dims) { return fmt::format("d{}_dv{}", dims.param.d, dims.param.dv); });

}  // namespace
}  // namespace strobe::test
