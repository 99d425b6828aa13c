// Compares the SIMD loops of every instruction set with the same formulas in float64, at lengths around multiples of a
// vector.
#include "ops/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "ops/cpu/activation.h"
#include "ops/cpu/adamw.h"
#include "ops/cpu/norm.h"
#include "ops/cpu/rope.h"
#include "ops/cpu/softmax.h"
#include "ops/differences.h"
#include "ops/tensors.h"
#include "strobe/error.h"
#include "support/isa_scope.h"

namespace strobe::ops {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 100};
constexpr std::size_t kGuard = 40;

// Elements between guard elements, which no loop may overwrite.
template <class T>
class Guarded {
 public:
  Guarded(std::int64_t count, unsigned seed) : count_(static_cast<std::size_t>(count)), all_(count_ + 2 * kGuard) {
    const std::vector<double> values = normal_values(all_.size(), seed);
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] = narrowed<T>(static_cast<float>(values[i]));
    before_ = all_;
  }
  T* data() { return all_.data() + kGuard; }
  std::vector<double> widened_all() const {
    std::vector<double> values;
    for (std::size_t i = 0; i < count_; ++i) values.push_back(widened(all_[kGuard + i]));
    return values;
  }
  void expect(const char* what, const std::vector<double>& exact, double units) const {
    const double unit = units * unit_of(std::is_same_v<T, float>  ? DType::fp32
                                        : std::is_same_v<T, Fp16> ? DType::fp16
                                                                  : DType::bf16);
    for (std::size_t i = 0; i < count_; ++i) {
      ASSERT_NEAR(widened(all_[kGuard + i]), exact[i], unit * std::max(1.0, std::abs(exact[i]))) << what << ' ' << i;
    }
    for (std::size_t i = 0; i < kGuard; ++i) {
      for (const std::size_t at : {i, kGuard + count_ + i}) {
        ASSERT_EQ(std::memcmp(&all_[at], &before_[at], sizeof(T)), 0) << what << " wrote outside";
      }
    }
  }

 private:
  std::size_t count_;
  std::vector<T> all_, before_;
};

template <class T>
void expect_swiglu(const Loops<T>& loops, std::int64_t count) {
  Guarded<T> a(count, 1), b(count, 2), dy(count, 3), y(count, 4), da(count, 5), db(count, 6);
  const auto exact_a = a.widened_all(), exact_b = b.widened_all(), exact_dy = dy.widened_all();
  std::vector<double> exact_y(exact_a), exact_da(exact_a), exact_db(exact_a);
  swiglu_range(exact_a.data(), exact_b.data(), exact_y.data(), count);
  swiglu_range_backward(exact_a.data(), exact_b.data(), exact_dy.data(), exact_da.data(), exact_db.data(), count);
  loops.swiglu(a.data(), b.data(), y.data(), count);
  loops.swiglu_backward(a.data(), b.data(), dy.data(), da.data(), db.data(), count);
  y.expect("swiglu", exact_y, 4);
  da.expect("da", exact_da, 8);
  db.expect("db", exact_db, 4);
}

template <class T>
void expect_gelu(const Loops<T>& loops, std::int64_t count) {
  Guarded<T> x(count, 1), dy(count, 2), y(count, 3), dx(count, 4);
  const auto exact_x = x.widened_all(), exact_dy = dy.widened_all();
  std::vector<double> exact_y(exact_x), exact_dx(exact_x);
  gelu_range(exact_x.data(), exact_y.data(), count);
  gelu_range_backward(exact_x.data(), exact_dy.data(), exact_dx.data(), count);
  loops.gelu(x.data(), y.data(), count);
  loops.gelu_backward(x.data(), dy.data(), dx.data(), count);
  y.expect("gelu", exact_y, 4);
  dx.expect("dx", exact_dx, 8);
}

template <class T>
void expect_layer_norm(const Loops<T>& loops, std::int64_t width) {
  if (width == 0) return;
  Guarded<T> x(width, 1), y(width, 2), dy(width, 3), dx(width, 4);
  Guarded<float> weight(width, 5), bias(width, 6), dweight(width, 7), dbias(width, 8), statistics(2, 9);
  const auto exact_x = x.widened_all(), exact_weight = weight.widened_all(), exact_dy = dy.widened_all();
  std::vector<double> exact_y(exact_x), exact_dx = dx.widened_all(), exact_dweight = dweight.widened_all(),
                                        exact_dbias = dbias.widened_all(), exact_statistics(2);
  const double eps = 0.1;  // with width 1 the variance is 0, and its rounding error in fp32 must be far below eps
  layer_norm_row(exact_x.data(), exact_weight.data(), bias.widened_all().data(), exact_y.data(),
                 exact_statistics.data(), width, eps);
  layer_norm_row_backward(exact_x.data(), exact_weight.data(), exact_statistics.data(), exact_dy.data(),
                          exact_dx.data(), Into::sum, width);
  layer_norm_parameters_backward(exact_x.data(), exact_statistics.data(), exact_dy.data(), exact_dweight.data(),
                                 exact_dbias.data(), width);
  loops.layer_norm(x.data(), weight.data(), bias.data(), y.data(), statistics.data(), width, static_cast<float>(eps));
  loops.layer_norm_backward(x.data(), weight.data(), statistics.data(), dy.data(), dx.data(), Into::sum, width);
  loops.layer_norm_parameters_backward(x.data(), statistics.data(), dy.data(), dweight.data(), dbias.data(), width);
  statistics.expect("statistics", exact_statistics, 4);
  y.expect("layer_norm", exact_y, 8);
  dx.expect("dx", exact_dx, 32);
  dweight.expect("dweight", exact_dweight, 8);
  dbias.expect("dbias", exact_dbias, 2);
}

template <class T>
void expect_rms_norm(const Loops<T>& loops, std::int64_t width) {
  if (width == 0) return;
  Guarded<T> x(width, 1), y(width, 2), dy(width, 3), dx(width, 4);
  Guarded<float> weight(width, 5), dweight(width, 6);
  const auto exact_x = x.widened_all(), exact_weight = weight.widened_all(), exact_dy = dy.widened_all();
  std::vector<double> exact_y(exact_x), exact_dx = dx.widened_all(), exact_dweight = dweight.widened_all();
  const double inverse = rms_norm_row(exact_x.data(), exact_weight.data(), exact_y.data(), width, 1e-5);
  rms_norm_row_backward(exact_x.data(), exact_weight.data(), inverse, exact_dy.data(), exact_dx.data(), Into::sum,
                        width);
  rms_norm_weight_backward(exact_x.data(), &inverse, exact_dy.data(), exact_dweight.data(), 1, width, 0, width);
  const float found = loops.rms_norm(x.data(), weight.data(), y.data(), width, 1e-5f);
  EXPECT_NEAR(found, inverse, 4e-7 * inverse);
  loops.rms_norm_backward(x.data(), weight.data(), found, dy.data(), dx.data(), Into::sum, width);
  loops.rms_norm_weight_backward(x.data(), &found, dy.data(), dweight.data(), 1, width, 0, width);
  y.expect("rms_norm", exact_y, 8);
  dx.expect("dx", exact_dx, 32);
  dweight.expect("dweight", exact_dweight, 8);
}

template <class T>
void expect_cross_entropy(const Loops<T>& loops, std::int64_t count) {
  if (count == 0) return;
  Guarded<T> logits(count, 1);
  std::vector<double> exact = logits.widened_all();
  const double log_sum = log_sum_exp(exact.data(), count);
  const float found = loops.log_sum_exp(logits.data(), count);
  EXPECT_NEAR(found, log_sum, 1e-6 * std::max(1.0, std::abs(log_sum)));
  cross_entropy_row_gradient(exact.data(), count, count / 2, log_sum, 0.5);
  loops.cross_entropy_gradient(logits.data(), count, count / 2, found, 0.5f);
  logits.expect("gradient", exact, 4);
  for (std::int64_t at = 0; at < count; ++at) {  // e^200 is infinite, so the maximum must be found at every position
    Guarded<T> one(count, 2);
    one.data()[at] = narrowed<T>(200);
    EXPECT_EQ(loops.log_sum_exp(one.data(), count), 200) << "at " << at;
  }
}

template <class T>
void expect_rope(const Loops<T>& loops, std::int64_t count) {
  if (count % 2 != 0) return;
  Guarded<T> x(count, 1);
  Guarded<float> table(count, 2);
  std::vector<double> exact = x.widened_all();
  rope_head(exact.data(), table.widened_all().data(), count, -1.0);
  loops.rope(x.data(), table.data(), count, -1);
  x.expect("rope", exact, 4);
}

// Conversions must equal those of core/half.h bit by bit.
template <class T>
void expect_conversions(const Loops<T>& loops, std::int64_t count) {
  Guarded<float> x(count, 1), wide(count, 2), onto(count, 5);
  Guarded<T> y(count, 3), sum(count, 4);
  std::vector<double> exact_y, exact_sum, exact_onto;
  for (std::int64_t i = 0; i < count; ++i) {
    exact_y.push_back(widened(narrowed<T>(x.data()[i])));
    exact_sum.push_back(widened(narrowed<T>(widened(sum.data()[i]) + x.data()[i])));
    exact_onto.push_back(static_cast<double>(onto.data()[i] + widened(narrowed<T>(x.data()[i]))));
  }
  loops.narrow(x.data(), y.data(), Into::set, count);
  loops.narrow(x.data(), sum.data(), Into::sum, count);
  loops.widen(y.data(), wide.data(), count);
  loops.add(y.data(), onto.data(), count);
  onto.expect("add", exact_onto, 0);
  y.expect("narrow", exact_y, 0);
  sum.expect("sum", exact_sum, 0);
  wide.expect("widen", exact_y, 0);
}

TEST(OpsIsa, LoopsAgreeWithFloat64AtEveryLength) {
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    const Isa& isa = chosen_isa();
    for (const DType dtype : kTypes) {
      with_type(dtype, [&]<class T>(T*) {
        for (const std::int64_t count : kCounts) {
          SCOPED_TRACE(testing::Message() << name << ", " << name_of(dtype) << ", " << count);
          expect_swiglu(isa.of<T>(), count);
          expect_gelu(isa.of<T>(), count);
          expect_layer_norm(isa.of<T>(), count);
          expect_rms_norm(isa.of<T>(), count);
          expect_cross_entropy(isa.of<T>(), count);
          expect_rope(isa.of<T>(), count);
          expect_conversions(isa.of<T>(), count);
        }
      });
    }
  }
}

TEST(OpsIsa, SixteenBitFormatsBitByBit) {
  std::vector<std::uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    const auto check = [&]<class T>(T*) {
      std::vector<T> from(all.size()), back(all.size());
      std::memcpy(from.data(), all.data(), all.size() * 2);
      std::vector<float> wide(all.size());
      chosen_isa().of<T>().widen(from.data(), wide.data(), 1 << 16);
      for (float& value : wide) value *= 1.0009765625f;  // between two representable values
      chosen_isa().of<T>().narrow(wide.data(), back.data(), Into::set, 1 << 16);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const T expected = narrowed<T>(widened(from[i]) * 1.0009765625f);
        ASSERT_EQ(back[i].bits, expected.bits) << name << ", " << i;
      }
    };
    check(static_cast<Fp16*>(nullptr));
    check(static_cast<Bf16*>(nullptr));
  }
}

// AdamW of a range split at any position gives the same bits. ZeRO ranks split ranges at other positions than one
// process does.
TEST(OpsIsa, AdamwDoesNotDependOnTheSplit) {
  const std::int64_t count = 101;
  const Update update = update_of({.rate = 0.01, .step = 3});
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    const auto updated = [&](std::int64_t cut) {
      std::vector<float> values, gradients, means, variances;
      for (const double one : normal_values(count, 7)) {
        values.push_back(static_cast<float>(one));
        gradients.push_back(static_cast<float>(one * one - 1));
        means.push_back(static_cast<float>(one / 3));
        variances.push_back(static_cast<float>(one * one));
      }
      const Trained tensor{.count = count,
                           .value = values.data(),
                           .gradient = gradients.data(),
                           .mean = means.data(),
                           .variance = variances.data()};
      chosen_isa().adamw(update, tensor, 0, cut);
      chosen_isa().adamw(update, tensor, cut, count);
      values.insert(values.end(), means.begin(), means.end());
      values.insert(values.end(), variances.begin(), variances.end());
      return values;
    };
    const std::vector<float> whole = updated(0);
    for (std::int64_t cut = 1; cut <= count; ++cut) ASSERT_EQ(updated(cut), whole) << name << ", cut at " << cut;
  }
}

TEST(OpsIsa, AnUnknownInstructionSetIsRejected) {
  const test::IsaScope scope("mmx");
  EXPECT_THROW(chosen_isa(), Error);
}

}  // namespace
}  // namespace strobe::ops
