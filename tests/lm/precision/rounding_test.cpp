// Tests the experiments of `strobe precision`: rounding errors of sums, LayerNorm and a toy model in 16 bits.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lm/precision/rounding.h"
#include "lm/precision/toy_model.h"

namespace strobe::lm {
namespace {

TEST(Accumulation, EqualsPyTorch) {
  const std::vector<Accumulation> all = accumulate_hundredths();
  ASSERT_EQ(all.size(), 4u);
  const std::array<double, 4> wanted{10.0001, 9.9531, 10.0021, 10.0021};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(all[i].result, wanted[i], 5e-5) << i;
  EXPECT_EQ(accumulate_hundredths(0)[1].result, 0);
  EXPECT_NEAR(accumulate_hundredths(2)[1].result, 0.02, 1e-4);
}

TEST(LayerNorm, EqualsItsDefinitionInFp32) {
  const std::array<float, 3> x{1, 2, 6};  // mean 3, variance 14 / 3
  std::array<float, 3> y{};
  const float inverse = layer_norm(x, DType::fp32, y);
  EXPECT_NEAR(inverse, 1 / std::sqrt(14.0 / 3 + 1e-5), 1e-6);
  EXPECT_NEAR(y[0], -2 * static_cast<double>(inverse), 1e-6);
  EXPECT_NEAR(y[2], 3 * static_cast<double>(inverse), 1e-6);
  EXPECT_NEAR(layer_norm_float64(x)[2], static_cast<double>(y[2]), 1e-6);
}

TEST(LayerNorm, LosesWhatItsTypeCannotRepresent) {
  const std::array<double, 2> deviations{1, 300};
  const std::vector<LayerNormError> errors = layer_norm_errors(deviations, 1024);
  ASSERT_EQ(errors.size(), 6u);
  for (const LayerNormError& error : errors) {
    const double unit = error.dtype == DType::fp32 ? 0x1p-20 : error.dtype == DType::fp16 ? 0x1p-10 : 0x1p-7;
    EXPECT_LT(error.fp32_inside, 4 * unit) << name_of(error.dtype);
    EXPECT_GE(error.throughout, error.fp32_inside);
  }
  EXPECT_GT(errors[2].throughout, 0.3) << "sums of bf16 stop growing";
  EXPECT_GT(errors[4].throughout, 1) << "squares of 300 are beyond fp16";
}

TEST(ToyModel, TensorsHaveTheTypesOfMixedPrecision) {
  for (const DType low : {DType::fp16, DType::bf16}) {
    ToyModel model(low);
    EXPECT_NEAR(model.loss_with_gradients(), ToyModel(DType::fp32).loss(), 0.05);
    ASSERT_EQ(model.tensors().size(), ToyModel::kPlaces);
    const auto type = [&](ToyModel::Place place) { return model.tensors()[place].dtype; };
    for (const auto place : {ToyModel::kFc1Weight, ToyModel::kNorm, ToyModel::kLosses, ToyModel::kDFc1Weight}) {
      EXPECT_EQ(type(place), DType::fp32) << model.tensors()[place].name;
    }
    for (const auto place : {ToyModel::kFc1, ToyModel::kLogits}) EXPECT_EQ(type(place), low);
  }
}

// A small step along a gradient changes the loss by the step times the gradient's squared norm.
TEST(ToyModel, GradientsMatchDifferences) {
  for (const auto& [parameter, gradient] : {std::pair{ToyModel::kFc1Weight, ToyModel::kDFc1Weight},
                                            {ToyModel::kNormWeight, ToyModel::kDNormWeight},
                                            {ToyModel::kNormBias, ToyModel::kDNormBias},
                                            {ToyModel::kFc2Weight, ToyModel::kDFc2Weight}}) {
    ToyModel model(DType::fp32);
    model.loss_with_gradients();
    const ToyTensor &value = model.tensors()[parameter], &slope = model.tensors()[gradient];
    double squares = 0;
    for (std::int64_t i = 0; i < slope.count(); ++i) squares += std::pow(static_cast<double>(slope.at(i)), 2);
    ASSERT_GT(squares, 0) << value.name;
    const double step = 1e-3 / std::sqrt(squares);
    const auto moved = [&](double by) {
      std::vector<float> before;
      for (std::int64_t i = 0; i < value.count(); ++i) {
        before.push_back(value.at(i));
        value.set(i, static_cast<float>(static_cast<double>(value.at(i)) + by * static_cast<double>(slope.at(i))));
      }
      const double loss = model.loss();
      for (std::int64_t i = 0; i < value.count(); ++i) value.set(i, before[static_cast<std::size_t>(i)]);
      return loss;
    };
    EXPECT_NEAR((moved(step) - moved(-step)) / (2 * step) / squares, 1, 0.02) << value.name;
  }
}

}  // namespace
}  // namespace strobe::lm
