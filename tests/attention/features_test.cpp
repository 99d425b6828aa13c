// Tests the float64 oracle against a direct definition of attention, and packed batches against separate sequences.
// Also tests gradients by finite differences, exact results of every CPU kernel for integer inputs, and fp32 accuracy
// over long sequences.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/philox.h"
#include "support/compare.h"
#include "support/isa_scope.h"
#include "support/run.h"

namespace strobe::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) largest = std::max(largest, std::isnan(a[i] - b[i]) ? kInfinity : std::abs(a[i] - b[i]));
  }
  return largest;
}

// Computes the formulas of the specification directly for one padded batch.
Results plain_definition(const Data& data) {
  const Case& c = data.c;
  Results out;
  const double scale = c.scale ? *c.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(c.d)));
  for_each({c.batch, c.heads_q, c.sq, 1}, [&](auto b, auto h, auto i, auto) {
    const auto hkv = h / (c.heads_q / c.heads_kv);
    const auto offset = c.alignment == Alignment::bottom_right ? c.seqlen_k(b) - c.seqlen_q(b) : 0;
    std::vector<double> exps(static_cast<std::size_t>(c.sk), 0);
    double sum = 0;
    for (std::int64_t j = 0; j < c.seqlen_k(b) && i < c.seqlen_q(b); ++j) {
      double s = 0;
      for (std::int64_t e = 0; e < c.d; ++e) s += double{data.q.at(b, h, i, e)} * data.k.at(b, hkv, j, e);
      s *= scale;
      if (c.softcap != 0) s = c.softcap * std::tanh(s / c.softcap);
      const auto slope = static_cast<std::size_t>((c.alibi_batch ? b * c.heads_q : 0) + h);
      if (c.alibi) s -= data.alibi_slopes[slope] * std::abs(static_cast<double>(i + offset - j));
      if (c.bias) {
        s += data.bias.at(c.bias_shape.batch ? b : 0, c.bias_shape.heads ? h : 0, c.bias_shape.rows ? i : 0, j);
      }
      const bool seen = (!c.causal || j <= i + offset) && (c.window.left < 0 || j >= i + offset - c.window.left) &&
                        (c.window.right < 0 || j <= i + offset + c.window.right) && j >= c.first_key(b) &&
                        data.mask_allows(b, h, i, j);
      if (seen) sum += exps[static_cast<std::size_t>(j)] = std::exp(s);
    }
    if (c.sinks && sum > 0) sum += std::exp(static_cast<double>(data.sinks[static_cast<std::size_t>(h)]));
    out.lse.push_back(std::log(sum));
    for (std::int64_t e = 0; e < c.dv; ++e) {
      double o = 0;
      for (std::int64_t j = 0; j < c.seqlen_k(b) && sum > 0; ++j) {
        const bool kept = dropout_keeps(data.dropout_seed, dropout_threshold(c.dropout), b, h, i, j);
        const double weight = exps[static_cast<std::size_t>(j)] / sum;
        if (weight > 0 && kept) o += weight * dropout_scale(dropout_threshold(c.dropout)) * data.v.at(b, hkv, j, e);
      }
      out.o.push_back(o);
    }
  });
  return out;
}

TEST(Oracle, FollowsThePlainDefinition) {
  const std::vector<Case> cases = {
      case_from("b2 h4/2 s7x9 d5/3"),
      case_from("s9x5 causal=bottom_right"),
      case_from("s5x9 causal=top_left"),
      case_from("s8x11 align=bottom_right window=2:1"),
      case_from("s8 causal window=3:-1"),
      case_from("s6x7 scale=-0.4 softcap=1.5"),
      case_from("h3/1 s6x7 align=bottom_right alibi"),
      case_from("b2 h2 s4x6 bias=b1qk"),
      case_from("b2 h2/1 s4x6 sinks dropout=0.3"),
      case_from("b3 s6x7 causal=bottom_right lengths_q=6,2,0 lengths_k=3,7,4"),
      case_from("b2 h2 s5x6 mask=bhqk sinks"),
      case_from("b2 h2 s5x6 mask=11qk mask_transposed causal=bottom_right dropout=0.3 seed_data"),
      case_from("b2 h2 s5x6 first_keys=2,5 causal=bottom_right alibi alibi_batch bias=bhqk dropout=0.2"),
      case_from("b2 h2 s5x6 first_keys=2,1 causal=top_left window=2:-1 mask=b11k"),
      case_from("b2 h2/1 s7x9 causal=bottom_right window=4:-1 softcap=2 alibi bias=1hqk sinks dropout=0.25"),
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(describe(c));
    const Data data(c);
    const Results plain = plain_definition(data);
    const Results reference = oracle_forward(data);
    EXPECT_LT(largest_difference(plain.o, reference.o), 1e-12);
    EXPECT_LT(largest_difference(plain.lse, reference.lse), 1e-12);
  }
}

// A packed batch equals its sequences run separately. The test has no dropout, whose random counter contains the index
// of the sequence.
TEST(Oracle, PackedEqualsSeparateSequences) {
  const Case packed = case_from(
      "b4 h4/2 s9x12 d6/7 causal=bottom_right window=5:-1 alibi packed lengths_q=9,0,4,1 "
      "lengths_k=5,3,12,0 q=bshd seed=5");
  const Data data(packed);
  const Results whole = oracle(data);
  for (std::int64_t b = 0; b < packed.batch; ++b) {
    Case alone = packed;
    alone.batch = 1, alone.lengths = Lengths::none, alone.lengths_q = {}, alone.lengths_k = {};
    alone.sq = packed.seqlen_q(b), alone.sk = packed.seqlen_k(b);
    Data part(alone);
    const auto copy = [&](Tensor& to, const Tensor& from, std::int64_t begin) {
      for_each(to.view.shape, [&](auto, auto h, auto s, auto e) { to.set(0, h, s, e, from.at(0, h, begin + s, e)); });
    };
    copy(part.q, data.q, data.begin_q(b)), copy(part.d_o, data.d_o, data.begin_q(b));
    copy(part.k, data.k, data.begin_k(b)), copy(part.v, data.v, data.begin_k(b));
    part.alibi_slopes = data.alibi_slopes;
    const Results single = oracle(part);
    const auto compare = [&](const std::vector<double>& all, const std::vector<double>& one, Shape shape,
                             std::int64_t begin, std::int64_t total) {
      std::size_t at = 0;
      for_each(shape, [&](auto, auto h, auto s, auto e) {
        EXPECT_DOUBLE_EQ(all[static_cast<std::size_t>((h * total + begin + s) * shape[3] + e)], one[at++]);
      });
    };
    compare(whole.o, single.o, part.shape_o(), data.begin_q(b), packed.total_q());
    compare(whole.dq, single.dq, part.shape_q(), data.begin_q(b), packed.total_q());
    compare(whole.dk, single.dk, part.shape_k(), data.begin_k(b), packed.total_k());
    compare(whole.dv, single.dv, part.shape_v(), data.begin_k(b), packed.total_k());
  }
}

// Returns sum(dO * O) in float64.
double loss(const Data& data) {
  const std::vector<double> o = oracle_forward(data, 1).o;
  const std::vector<double> d_o = data.d_o.gather();
  double sum = 0;
  for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * d_o[i];
  return sum;
}

// Returns the derivative of the loss with respect to the value that `set` writes, by a five-point formula whose steps
// are exact in fp32.
template <class Set>
double derivative(const Data& data, float value, Set&& set) {
  constexpr float kStep = 0x1p-7f;
  const auto at = [&](float x) {
    set(x);
    return loss(data);
  };
  const double near = at(value + kStep) - at(value - kStep);
  const double far = at(value + 2 * kStep) - at(value - 2 * kStep);
  set(value);
  return (8 * near - far) / (12 * double{kStep});
}

std::vector<double> derivatives(const Data& data, Tensor& tensor) {
  std::vector<double> list;
  for_each(tensor.view.shape, [&](auto b, auto h, auto s, auto e) {
    list.push_back(derivative(data, tensor.at(b, h, s, e), [&](float x) { tensor.set(b, h, s, e, x); }));
  });
  return list;
}

TEST(Gradients, FollowFiniteDifferences) {
  const std::vector<Case> cases = {
      case_from("h2 s4x5 d3/4 seed=31"),
      case_from("h4/2 s5x4 d4/2 causal=bottom_right seed=32"),
      case_from("h2/1 s5x6 d3 causal=top_left window=2:-1 softcap=1.5 alibi seed=33"),
      case_from("b2 h2/1 s3x4 d3 bias=1h1k sinks dropout=0.25 seed=34"),
      case_from("b2 s4x5 d3 scale=-0.7 softcap=3 bias=b1qk lengths_q=4,2 lengths_k=3,5 seed=35"),
      case_from("b3 h2/1 s4 d3 sinks packed lengths_q=4,0,2 lengths_k=3,2,4 seed=36"),
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(describe(c));
    Data data(c);
    // Rounds the inputs to multiples of 2^-10, padding included.
    for (Tensor* tensor : {&data.q, &data.k, &data.v, &data.d_o, &data.bias}) {
      if (!tensor->buffer) continue;
      for_each(tensor->view.shape, [&](auto b, auto h, auto s, auto e) {
        const float value = tensor->at(b, h, s, e);
        tensor->set(b, h, s, e, std::isnan(value) ? 0.f : std::round(value * 0x1p10f) * 0x1p-10f);
      });
    }
    for (float& sink : data.sinks) sink = std::round(sink * 0x1p10f) * 0x1p-10f;
    data.remember();
    Results numeric;
    numeric.dq = derivatives(data, data.q);
    numeric.dk = derivatives(data, data.k);
    numeric.dv = derivatives(data, data.v);
    if (c.bias) numeric.dbias = derivatives(data, data.bias);
    for (float& sink : data.sinks) {
      numeric.dsinks.push_back(derivative(data, sink, [&](float x) { sink = x; }));
    }
    const Results exact = oracle(data);
    const auto check = [&](const Results& results, double tolerance, const std::string& who) {
      for (const auto& [name, member] : kOutputs) {
        if (member == &Results::o || member == &Results::lse) continue;
        EXPECT_LT(largest_difference(numeric.*member, results.*member), tolerance) << who << " " << name;
      }
    };
    check(exact, 1e-7, "oracle");
    check(run(data, {.kernel = "standard"}).results, 5e-6, "standard");
    for (const std::string& isa : available_isas()) {
      const IsaScope scope(isa);
      check(run(data, {.kernel = "flash2"}).results, 5e-6, "flash2 " + isa);
    }
  }
}

// Runs every CPU kernel, and flash2 on every instruction set.
template <class Check>
void for_every_kernel(const Data& data, Check&& check) {
  for (const char* kernel : {"reference", "standard", "frugal"}) check(run(data, {.kernel = kernel}).results, kernel);
  for (const std::string& isa : available_isas()) {
    const IsaScope scope(isa);
    check(run(data, {.kernel = "flash2", .threads = 2}).results, "flash2 " + isa);
  }
}

// Scores are so far apart that one key has probability 1. A row of O is then a row of V, and a row of dV the sum of the
// rows of dO that use its key, bitwise.
TEST(Integers, OneKeyHasAllProbability) {
  for (const DType dtype : kDTypes) {
    Case c = case_from("h2/1 s40 d40/24 {} scale=1 values=integer seed=41", name_of(dtype));
    Data data(c);
    const auto key_of = [](std::int64_t h, std::int64_t i) { return (i * 7 + h * 3) % 40; };  // 7 and 40 are coprime
    for_each(data.q.view.shape,
             [&](auto b, auto h, auto i, auto e) { data.q.set(b, h, i, e, e == key_of(h, i) ? 128.f : 0.f); });
    for_each(data.k.view.shape, [&](auto b, auto h, auto j, auto e) { data.k.set(b, h, j, e, e == j ? 2.f : 0.f); });
    data.remember();
    for_every_kernel(data, [&](const Results& results, const std::string& who) {
      std::vector<double> o, lse, dv(results.dv.size(), 0);
      for_each(data.shape_o(), [&](auto, auto h, auto i, auto e) {
        o.push_back(data.v.at(0, 0, key_of(h, i), e));
        dv[static_cast<std::size_t>(key_of(h, i) * c.dv + e)] += data.d_o.at(0, h, i, e);
        if (e == 0) lse.push_back(256);
      });
      EXPECT_EQ(o, results.o) << who << " " << strobe::name_of(dtype);
      EXPECT_EQ(lse, results.lse) << who << " " << strobe::name_of(dtype);
      EXPECT_EQ(dv, results.dv) << who << " " << strobe::name_of(dtype);
    });
  }
}

// With equal scores over a power of two of keys, O is the mean of integers, which is exact in every type.
TEST(Integers, EqualProbabilities) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t keys : {1, 2, 16, 64, 256}) {
      Case c = case_from("s5x{} d16/17 {} scale=0 values=integer seed=42", keys, name_of(dtype));
      const Data data(c);
      for_every_kernel(data, [&](const Results& results, const std::string& who) {
        std::vector<double> o, dv;
        for_each(data.shape_o(), [&](auto, auto, auto, auto e) {
          double sum = 0;
          for (std::int64_t j = 0; j < keys; ++j) sum += data.v.at(0, 0, j, e);
          o.push_back(sum / static_cast<double>(keys));
        });
        for_each(data.shape_v(), [&](auto, auto, auto, auto e) {
          double sum = 0;
          for (std::int64_t i = 0; i < c.sq; ++i) sum += data.d_o.at(0, 0, i, e);
          dv.push_back(sum / static_cast<double>(keys));
        });
        if (who == "reference") {  // the reference divides by exp(LSE), which is rounded in float64 too
          EXPECT_LE(largest_difference(o, results.o), 1e-15) << strobe::name_of(dtype) << ", " << keys << " keys";
        } else {
          EXPECT_EQ(o, results.o) << who << " " << strobe::name_of(dtype) << ", " << keys << " keys";
        }
        // In fp32, kernels other than flash2 compute probabilities from LSE, a rounded logarithm.
        const bool rounded = dtype == DType::fp32 && !who.starts_with("flash2");
        EXPECT_LE(largest_difference(dv, results.dv), (rounded ? 0x1p-20 : 0) * 20 / static_cast<double>(keys))
            << who << " " << strobe::name_of(dtype) << ", " << keys << " keys";
        const std::vector<double> zeros(results.dq.size(), 0);
        EXPECT_EQ(zeros, results.dq) << who << " " << strobe::name_of(dtype) << ", " << keys << " keys";
      });
    }
  }
}

TEST(SlowAccuracy, Fp32AtLength4096) {
  for (const bool causal : {false, true}) {
    const Case c = case_from("h2/1 s4096 d64 causal={} seed=51", causal);
    const Data data(c);
    const Results reference = oracle_forward(data);
    for (const std::string& isa : available_isas()) {
      const IsaScope scope(isa);
      Tensor o = make_tensor({DType::fp32, data.shape_o(), Layout::bhsd, 0});
      std::vector<float> lse(reference.lse.size());
      forward(data.attention(), {.o = o.view, .lse = lse.data()}, {.kernel = "flash2"});
      const Deviation of_o = deviation(reference.o, o.gather(), DType::fp32);
      const Deviation of_lse = deviation(reference.lse, {lse.begin(), lse.end()}, DType::fp32);
      EXPECT_EQ(of_o.mismatch + of_lse.mismatch, "") << isa;
      EXPECT_LE(of_o.max, 1e-5 * of_o.reference_max) << isa;
      EXPECT_LE(of_lse.max, 1e-5 * of_lse.reference_max) << isa;
    }
  }
}

}  // namespace
}  // namespace strobe::test
