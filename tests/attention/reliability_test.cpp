// Tests cases that failed in other libraries: shapes, memory layouts and values from their bug reports. check()
// compares kernels with the float64 oracle within an absolute limit, independently of other kernels. isolation_test.cpp
// tests non-finite values.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/half.h"
#include "support/check.h"
#include "support/compare.h"
#include "support/isa_scope.h"
#include "support/random.h"
#include "support/run.h"

namespace strobe::test {
namespace {

void check_all_types(Case c, double limit = 64) {
  for (const DType dtype : kDTypes) {
    c.dtype = dtype;
    check(Data(c), Kernels::all, limit);
  }
}

TEST(Reliability, SequencesAroundTileEdges) {
  for (const std::int64_t s : {1, 3, 4, 5, 7, 9, 11, 13, 15, 17, 31, 33, 63, 65, 127, 129, 255, 257}) {
    check_all_types(case_from("s{} d20 causal={} seed=101", s, s % 4 == 1));
    check_all_types(case_from("s3x{} d8/9 seed=102", s));
    check_all_types(case_from("s{}x3 d9/8 seed=103", s));
  }
}

TEST(Reliability, OneRowOrOneKey) {
  check_all_types(case_from("b2 h4/2 s1 d64 seed=111"));
  check_all_types(case_from("h4/1 s1x1500 d64 seed=112"));
  check_all_types(case_from("h2/1 s300x1 d64 seed=113"));
}

TEST(Reliability, EmptySizes) {
  for (const auto& [sq, sk] : {std::pair{0, 0}, {0, 5}, {5, 0}}) {
    check_all_types(case_from("b2 h2/1 s{}x{} bias=111k sinks seed=121", sq, sk));
  }
  check_all_types(case_from("b0 s4 seed=122"));
}

TEST(Reliability, OddHeadDimensions) {
  for (const std::int64_t d : {1, 2, 3, 5, 7, 9, 15, 17, 31, 33, 63, 65, 111, 127, 129, 191, 200, 255, 256}) {
    check_all_types(case_from("h2/1 s19x37 d{}/{} seed=131", d, 257 - d));
    check_all_types(case_from("s5x12 d{} q=bshd k=padded seed=132", d));
  }
}

// With more rows than keys, the first rows see no key at all.
TEST(Reliability, FullyMaskedRows) {
  for (const DType dtype : kDTypes) {
    for (const bool sinks : {false, true}) {
      const Case c = case_from("h4/2 s100x37 d24/16 {} causal=bottom_right sinks={} seed=141", name_of(dtype), sinks);
      const Data data(c);
      check(data, Kernels::all);
      for (const char* kernel : {"reference", "standard", "frugal", "flash2"}) {
        const Results results = run(data, {.kernel = kernel}).results;
        for (std::int64_t h = 0; h < c.heads_q; ++h) {
          for (std::int64_t i = 0; i < c.sq - c.sk; ++i) {
            const auto row = static_cast<std::size_t>(h * c.sq + i);
            ASSERT_EQ(results.lse[row], -kInf) << kernel;
            for (std::size_t e = 0; e < 16; ++e) ASSERT_EQ(results.o[row * 16 + e], 0) << kernel;
            for (std::size_t e = 0; e < 24; ++e) ASSERT_EQ(results.dq[row * 24 + e], 0) << kernel;
          }
        }
      }
    }
  }
  check_all_types(case_from("s9 window=0:0 seed=142"));
  check_all_types(case_from("s50x9 align=top_left window=3:2 seed=143"));
}

TEST(Reliability, ZeroLengthSequences) {
  for (const int bits : {32, 64}) {
    Case c = case_from(
        "b6 h2/1 s70x90 d24 causal=bottom_right packed lengths_q=0,70,0,5,3,0 lengths_k=0,90,7,0,20,0 "
        "index_bits={} seed=151",
        bits);
    check_all_types(c);
    c.lengths = Lengths::both;
    check_all_types(c);
    c.lengths = Lengths::packed;
    c.lengths_q = c.lengths_k = {0, 0, 0, 0, 0, 0};
    c.sq = c.sk = 0;
    check_all_types(c);
  }
}

TEST(Reliability, ExpandedInputs) {
  for (const Layout layout : {Layout::expanded_batch, Layout::expanded_heads, Layout::expanded_rows}) {
    check_all_types(case_from("b2 h4/2 s21x40 d16/24 q={} k={} v={} do={} seed=161", name_of(layout), name_of(layout),
                              name_of(layout), name_of(layout)));
  }
  for (const Layout layout : {Layout::expanded_last, Layout::expanded_all}) {  // the layouts of the gradient of sum()
    check_all_types(case_from("b2 h4/2 s21x40 d16/24 do={} seed=162", name_of(layout)));
  }
}

// Scores are in the tens of thousands, where exp(score) would overflow. The probabilities are exactly one-hot.
TEST(Reliability, LargeScores) {
  for (const DType dtype : kDTypes) {
    for (const float scale : {1.f, -1.f}) {
      Case c = case_from("h2/1 s40x70 d16 {} scale={} values=integer seed=171", name_of(dtype), scale);
      Data data(c);
      for_each(data.q.view.shape,
               [&](auto b, auto h, auto i, auto e) { data.q.set(b, h, i, e, data.q.at(b, h, i, e) * 512); });
      for_each(data.k.view.shape, [&](auto b, auto h, auto j, auto e) {
        data.k.set(b, h, j, e, e == 0 ? static_cast<float>(j) : e == 1 ? static_cast<float>(-j) : 0.f);
      });
      for_each(data.q.view.shape,
               [&](auto b, auto h, auto i, auto) { data.q.set(b, h, i, 0, 512.f), data.q.set(b, h, i, 1, 0.f); });
      data.remember();
      check(data, Kernels::all);
    }
  }
}

// Logits are larger than 2^20, up to near the largest float. Each row has one probability of 1, and no intermediate
// value may overflow. Keys fill one block or several. In fp32 an LSE this large is rounded to a multiple of 1/8 or
// more, and the gradients must still be correct.
TEST(Reliability, HugeScores) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const std::int64_t keys : {40, 700}) {
      for (const auto& [factor, scale] :
           {std::pair{1e3f, 0.25f}, {1e5f, 0.25f}, {1e6f, -0.25f}, {1.f, 1e10f}, {1.f, 1e30f}}) {
        for (const bool sinks : {false, true}) {
          const Case c = case_from("h2/1 s33x{} d16 {} scale={} sinks={} seed=173", keys, name_of(dtype), scale, sinks);
          Data data(c);
          for_each(data.q.view.shape, [&, by = factor](auto b, auto h, auto i, auto e) {
            data.q.set(b, h, i, e, data.q.at(b, h, i, e) * by);
          });
          for_each(data.k.view.shape, [&, by = factor](auto b, auto h, auto j, auto e) {
            data.k.set(b, h, j, e, data.k.at(b, h, j, e) * by);
          });
          data.remember();
          SCOPED_TRACE(testing::Message() << "inputs times " << factor << ", scale " << scale);
          check(data, dtype == DType::fp32 ? Kernels::all : Kernels::isolating);  // standard rounds scores to bf16
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Each row has its own dominant key with probability 1. dS is then 0, so dQ and dK must be exactly 0 in flash2.
TEST(Reliability, RowsWithOneDominantKeyHaveNoGradient) {
  Data data(case_from("h2 s130x700 d40/24 seed=175"));
  for_each(data.k.view.shape, [&](auto b, auto h, auto j, auto e) {
    const float of_row = j % 5 == 0 && j / 5 < 130 ? 30 * data.q.at(b, h, j / 5, e) : data.k.at(b, h, j, e);
    data.k.set(b, h, j, e, of_row);
  });
  for_each(data.q.view.shape,
           [&](auto b, auto h, auto i, auto e) { data.q.set(b, h, i, e, 30 * data.q.at(b, h, i, e)); });
  data.remember();
  const auto largest = [](const std::vector<double>& values) {
    double most = 0;
    for (const double x : values) most = std::max(most, std::abs(x));
    return most;
  };
  ASSERT_LT(largest(oracle(data).dq), 1e-40);
  for (const std::string& isa : available_isas()) {
    const IsaScope scope(isa);
    const Results results = run(data, {.kernel = "flash2"}).results;
    EXPECT_EQ(largest(results.dq), 0) << isa;
    EXPECT_EQ(largest(results.dk), 0) << isa;
  }
}

TEST(Reliability, SmallestAndLargestSoftcap) {
  for (const DType dtype : kDTypes) {
    for (const float softcap : {1e-30f, 1e30f}) {
      for (const std::int64_t keys : {40, 700}) {
        const Case c = case_from("h2/1 s33x{} d16 {} softcap={} seed=174", keys, name_of(dtype), softcap);
        check(Data(c), dtype == DType::fp32 ? Kernels::all : Kernels::isolating);  // standard rounds capped scores
      }
    }
  }
}

// With a single key, LSE is its logit, softcap * tanh(q / softcap). q takes all bf16 values of magnitude 2^-9 to 16, 0
// and non-finite values.
TEST(Reliability, SoftcapIsTanh) {
  std::vector<std::uint16_t> q;
  for (std::uint16_t bits = float_to_bf16(0x1p-9f); bits <= float_to_bf16(16); ++bits) {
    q.push_back(bits);
    q.push_back(bits | 0x8000u);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float odd : {0.0f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
    q.push_back(float_to_bf16(odd));
  const auto rows = static_cast<std::int64_t>(q.size());
  const std::uint16_t one = float_to_bf16(1);
  std::vector<std::uint16_t> o(q.size());
  std::vector<float> lse(q.size());
  for (const float softcap : {1.0f, 0.25f}) {
    for (const std::string& isa : available_isas()) {
      const IsaScope scope(isa);
      forward({.q = view_bhsd(static_cast<const void*>(q.data()), DType::bf16, {1, 1, rows, 1}),
               .k = view_bhsd(static_cast<const void*>(&one), DType::bf16, {1, 1, 1, 1}),
               .v = view_bhsd(static_cast<const void*>(&one), DType::bf16, {1, 1, 1, 1}),
               .scale = 1.0f,
               .softcap = softcap},
              {.o = view_bhsd(static_cast<void*>(o.data()), DType::bf16, {1, 1, rows, 1}), .lse = lse.data()},
              {.kernel = "flash2"});
      for (std::size_t i = 0; i + 1 < q.size(); ++i) {
        const double wanted = softcap * std::tanh(bf16_to_float(q[i]) / softcap);
        EXPECT_NEAR(lse[i], wanted, 2e-5 * std::abs(wanted))
            << isa << ": " << bf16_to_float(q[i]) << ", cap " << softcap;
      }
      EXPECT_TRUE(std::isnan(lse.back())) << isa;
    }
  }
}

// The longest of these cases have several blocks of keys on every instruction set, the last one partial.
TEST(Reliability, SeveralBlocksOfKeys) {
  for (const std::int64_t sk : {513, 1100, 1537}) {
    check_all_types(case_from("s70x{} d40/24 seed=176", sk));
    check_all_types(case_from("s70x{} d40/24 align=bottom_right window=600:70 softcap=3 bias=111k seed=177", sk));
  }
  // These cases split the keys. On instruction sets with narrow panels, the last rows are in a narrow panel.
  for (const std::int64_t sq : {64, 68}) {
    check_all_types(case_from("s{}x1537 d40/24 sinks seed=178", sq));
  }
}

// The backward computes fp32 probabilities from an LSE of several hundred, so their error is |LSE| ulp instead of a
// few.
TEST(Reliability, LargeScoresOverSeveralBlocks) {
  for (const float softcap : {0.f, 200.f}) {
    const Case c = case_from("h2/1 s130x700 d40/24 causal=bottom_right softcap={} values=large seed=172", softcap);
    const Data data(c);
    double largest = 0;
    for (const double lse : oracle_forward(data).lse) largest = std::max(largest, std::abs(lse));
    ASSERT_GT(largest, 100);
    check(data, Kernels::all, 4 * largest);
  }
}

// Tests biases that users write instead of masks. A row whose biases are all the lowest value has equal probabilities;
// a row whose biases are all -inf has none.
TEST(Reliability, LowestAndInfiniteBias) {
  struct Fill {
    const char* name;
    std::function<float(std::int64_t i, std::int64_t j)> value;
  };
  const Fill fills[] = {
      {"-inf on some keys", [](auto i, auto j) { return (i + j) % 3 == 0 ? -kInf : 0.f; }},
      {"-inf on whole rows", [](auto i, auto) { return i % 2 == 0 ? -kInf : 0.5f; }},
      {"-inf everywhere", [](auto, auto) { return -kInf; }},
      {"lowest on some keys", [](auto i, auto j) { return (i + j) % 3 == 0 ? -FLT_MAX : 0.f; }},
      {"lowest on the first block", [](auto, auto j) { return j < 150 ? -FLT_MAX : 0.25f; }},
      {"lowest on whole rows", [](auto i, auto) { return i % 2 == 0 ? -FLT_MAX : 0.5f; }},
      {"-1e9 on whole rows", [](auto i, auto j) { return i % 2 == 0 ? -1e9f
                                                         : j == 3   ? -1e9f
                                                                    : 0.f; }},
  };
  for (const Fill& fill : fills) {
    SCOPED_TRACE(fill.name);
    for (const auto& [keys, sinks] : {std::pair{200, false}, {200, true}, {700, false}, {700, true}}) {
      Case c = case_from("h2/1 s11x{} d8 bias=11qk sinks={} seed=181", keys, sinks);
      Data data(c);
      for_each(data.bias.view.shape,
               [&](auto b, auto h, auto i, auto j) { data.bias.set(b, h, i, j, fill.value(i, j)); });
      // A score of order 1 vanishes next to -1e9 in fp32. All scores are equal here, so they have no effect in the
      // oracle either.
      for_each(data.k.view.shape,
               [&](auto b, auto h, auto j, auto e) { data.k.set(b, h, j, e, data.k.at(b, h, 0, e)); });
      data.remember();
      check(data, Kernels::all);
    }
  }
  for (const DType dtype : {DType::fp16, DType::bf16}) {  // the lowest value of the bias's type
    Case c = case_from("s11x40 d8 {} bias=11qk bias_dtype={} seed=182", name_of(dtype), name_of(dtype));
    Data data(c);
    const float lowest = dtype == DType::fp16 ? -65504.f : -0x1.fep127f;
    for_each(data.bias.view.shape,
             [&](auto b, auto h, auto i, auto j) { data.bias.set(b, h, i, j, (i + j) % 4 ? lowest : 0.f); });
    data.remember();
    check(data, Kernels::all);
  }
}

TEST(Reliability, SinkOfMinusInfinityHasNoEffect) {
  Case c = case_from("h2/1 s9x21 sinks seed=191");
  Data data(c);
  data.sinks = {-kInf, 0.5f};
  check(data, Kernels::all);
}

// Reserved address space for tensors that span more than 2^31 elements. Only touched pages use memory.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~SparseMemory() {
    if (ok()) ::munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST(Reliability, MoreThan2To31Elements) {
  const Case c = case_from("b2 h2 s40 d24 bf16 causal seed=231");
  const Data data(c);
  // Element strides: 2^25 per row, 2^31 + 2^29 per head and 2^33 per batch. The last of the 40 rows begins at 1.3e9.
  const std::array<std::int64_t, 4> stride = {std::int64_t{1} << 33, (std::int64_t{1} << 31) + (std::int64_t{1} << 29),
                                              std::int64_t{1} << 25, 1};
  const std::size_t bytes = static_cast<std::size_t>(2 * (2 * stride[0]));
  std::vector<std::unique_ptr<SparseMemory>> maps;
  for (int i = 0; i < 8; ++i) {
    maps.push_back(std::make_unique<SparseMemory>(bytes));
    if (!maps.back()->ok()) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  }
  const auto spread = [&](int i, const Shape& shape) {
    return View{maps[static_cast<std::size_t>(i)]->data(), c.dtype, shape, stride};
  };
  const auto copy = [&](int i, const Tensor& from) {
    Tensor to{spread(i, from.view.shape), nullptr};
    for_each(from.view.shape, [&](auto b, auto h, auto s, auto e) { to.set(b, h, s, e, from.at(b, h, s, e)); });
    return to.view;
  };
  const View q = copy(0, data.q), k = copy(1, data.k), v = copy(2, data.v), d_o = copy(3, data.d_o);
  const View o = spread(4, data.shape_o());
  const Gradients gradients{
      .dq = spread(5, data.shape_q()), .dk = spread(6, data.shape_k()), .dv = spread(7, data.shape_v())};
  Attention attention = data.attention();
  attention.q = q, attention.k = k, attention.v = v;
  for (const char* kernel : {"flash2", "frugal", "standard", "reference"}) {
    const Results compact = run(data, {.kernel = kernel}).results;
    std::vector<float> lse(compact.lse.size(), kNan);
    forward(attention, {.o = o, .lse = lse.data()}, {.kernel = kernel});
    backward(attention, {.o = o, .lse = lse.data(), .d_o = d_o}, gradients, {.kernel = kernel});
    Results sparse;
    sparse.o = Tensor{o, nullptr}.gather();
    sparse.lse.assign(lse.begin(), lse.end());
    sparse.dq = Tensor{gradients.dq, nullptr}.gather();
    sparse.dk = Tensor{gradients.dk, nullptr}.gather();
    sparse.dv = Tensor{gradients.dv, nullptr}.gather();
    EXPECT_EQ(first_difference(compact, sparse), "") << kernel;
  }
}

// 8300 sequences of one row and 16 heads are 132,800 heads and 17 million elements. A workspace with padded rows would
// overflow 32-bit offsets.
TEST(SlowReliability, ManyTinySequences) {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages * page < (std::int64_t{4} << 30)) GTEST_SKIP() << "less than 4 GB of memory";
  const Shape shape = {8300, 16, 1, 128};
  const auto count = static_cast<std::size_t>(count_of(shape));
  const std::size_t rows = count / 128;
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    Random random(241);
    const auto draw = [&] {
      std::vector<std::uint16_t> values(count);
      for (auto& value : values) {
        const float x = static_cast<float>(random.uniform()) * 2 - 1;
        value = dtype == DType::fp16 ? float_to_fp16(x) : float_to_bf16(x);
      }
      return values;
    };
    const auto q = draw(), k = draw(), v = draw(), d_o = draw();
    const std::uint16_t nan = dtype == DType::fp16 ? 0x7e00 : 0x7fc0;
    std::vector<std::uint16_t> o(count, nan), dq(count, nan), dk(count, nan), dv(count, nan);
    std::vector<float> lse(rows, kNan);
    const auto in = [&](const std::vector<std::uint16_t>& x) {
      return view_bhsd(static_cast<const void*>(x.data()), dtype, shape);
    };
    const auto out = [&](std::vector<std::uint16_t>& x) {
      return view_bhsd(static_cast<void*>(x.data()), dtype, shape);
    };
    const Attention attention{.q = in(q), .k = in(k), .v = in(v)};
    for (const std::string& isa : isas_for(dtype)) {
      if (isa == "generic") continue;
      const IsaScope scope(isa);
      forward(attention, {.o = out(o), .lse = lse.data()}, {.kernel = "flash2"});
      backward(attention, {.o = in(o), .lse = lse.data(), .d_o = in(d_o)},
               {.dq = out(dq), .dk = out(dk), .dv = out(dv)}, {.kernel = "flash2"});
      EXPECT_EQ(o, v) << isa;  // the only key of a row has probability 1
      EXPECT_EQ(dv, d_o) << isa;
      double worst_lse = 0, worst_gradient = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        double score = 0;
        for (std::size_t e = 0; e < 128; ++e) {
          const auto at = static_cast<std::int64_t>(row * 128 + e);
          score += double{load_element(q.data(), dtype, at)} * load_element(k.data(), dtype, at);
          worst_gradient = std::fmax(worst_gradient, std::abs(load_element(dq.data(), dtype, at)));
          worst_gradient = std::fmax(worst_gradient, std::abs(load_element(dk.data(), dtype, at)));
          ASSERT_FALSE(std::isnan(load_element(dq.data(), dtype, at)) ||
                       std::isnan(load_element(dk.data(), dtype, at)));
        }
        worst_lse = std::fmax(worst_lse, std::abs(score / std::sqrt(128.0) - lse[row]));
        ASSERT_FALSE(std::isnan(lse[row]));
      }
      EXPECT_LT(worst_lse, dtype == DType::fp16 ? 1e-5 : 1e-3) << isa;
      EXPECT_LT(worst_gradient, 1e-4) << isa;  // the probability does not depend on the score
    }
  }
}

}  // namespace
}  // namespace strobe::test
