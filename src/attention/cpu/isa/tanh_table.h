// tanh on AVX-512, for probabilities that are rounded to bf16: cubics on 32 intervals, whose coefficients are looked up
// in registers. Used by scores.h.
#pragma once

#include "attention/cpu/isa/tanh.h"

namespace strobe::cpu {
namespace {

// Interval j uses a cubic in 4 |x| - j, fitted for the least relative error, which is at most 2e-5. The absolute error
// is 7e-6, so a logit has an error of 7e-6 times softcap. TableTanh takes 13 operations per vector; ShortTanh takes 18.
// The slope has an absolute error of 1e-5; its relative error is not bounded. For |x| >= 7, where the true slope is
// smaller than this error, the result is 0.
struct TableTanh {
  static constexpr float kScale = 4;  // factor of the argument

  template <class X>
  STROBE_INLINE void begin(X argument) {
    F32 rest[kTanhAtOnce];
    __m512i interval[kTanhAtOnce];
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      x_[i] = argument(i);
      rest[i] = min_keep_nan(broadcast(31.0f), absolute(x_[i]));
      interval[i] = (__m512i)(rest[i] + 0x1.8p23f);  // the low bits hold the interval; the look-up reads only those
      rest[i] = (F32)_mm512_reduce_ps((__m512)rest[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    });
    const auto coefficient = [&](int k, int i) STROBE_INLINE_LAMBDA {
      return (F32)_mm512_permutex2var_ps(_mm512_load_ps(kCubics[k]), interval[i], _mm512_load_ps(kCubics[k] + 16));
    };
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { y_[i] = fma(coefficient(3, i), rest[i], coefficient(2, i)); });
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { y_[i] = fma(y_[i], rest[i], coefficient(1, i)); });
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA { y_[i] = fma(y_[i], rest[i], coefficient(0, i)); });
  }
  template <bool Slope>
  STROBE_INLINE void finish(F32 (&value)[kTanhAtOnce], F32 (&slope)[kTanhAtOnce]) const {
    for_each_vector([&](int i) STROBE_INLINE_LAMBDA {
      value[i] = copy_sign(y_[i], x_[i]);
      if constexpr (Slope) slope[i] = absolute(x_[i]) >= 28.0f ? F32{} : fma(-y_[i], y_[i], broadcast(1.0f));
    });
  }

 private:
  F32 x_[kTanhAtOnce], y_[kTanhAtOnce];

  // kCubics[k][j] is coefficient k of interval j. The cubic of interval 0 is 0 at 0.
  alignas(64) static constexpr float kCubics[4][32] = {
      {0.0f,          2.4491462e-1f, 4.6211222e-1f, 6.351459e-1f,  7.615933e-1f,  8.48284e-1f,   9.05149e-1f,
       9.4137627e-1f, 9.640281e-1f,  9.780265e-1f,  9.866145e-1f,  9.9185985e-1f, 9.9505484e-1f, 9.969977e-1f,
       9.9817795e-1f, 9.9889445e-1f, 9.993293e-1f,  9.9959314e-1f, 9.9975324e-1f, 9.9985033e-1f, 9.999092e-1f,
       9.999449e-1f,  9.999666e-1f,  9.9997973e-1f, 9.999877e-1f,  9.9999255e-1f, 9.9999547e-1f, 9.9999726e-1f,
       9.9999833e-1f, 9.99999e-1f,   9.999994e-1f,  9.9999964e-1f},
      {2.500005e-1f,  2.3501438e-1f, 1.9661924e-1f, 1.4915057e-1f, 1.04995355e-1f, 7.010421e-2f,  4.517663e-2f,
       2.8452847e-2f, 1.766253e-2f,  1.0866095e-2f, 6.6479645e-3f, 4.0535117e-3f,  2.4664714e-3f, 1.4989051e-3f,
       9.1020664e-4f, 5.5246416e-4f, 3.3523224e-4f, 2.033823e-4f,  1.2337734e-4f,  7.483941e-5f,  4.5395067e-5f,
       2.7534485e-5f, 1.6700871e-5f, 1.0129723e-5f, 6.1440364e-6f, 3.7265645e-6f,  2.2602824e-6f, 1.370933e-6f,
       8.315138e-7f,  5.043389e-7f,  3.0589715e-7f, 1.855729e-7f},
      {-1.5150698e-5f, -1.4255252e-2f, -2.25547e-2f,   -2.3585282e-2f, -1.9963382e-2f, -1.487901e-2f,  -1.0247173e-2f,
       -6.7191864e-3f, -4.2743087e-3f, -2.6689083e-3f, -1.6476364e-3f, -1.0101319e-3f, -6.166844e-4f,  -3.755214e-4f,
       -2.2831293e-4f, -1.3868073e-4f, -8.418849e-5f,  -5.109029e-5f,  -3.0997908e-5f, -1.880489e-5f,  -1.1407107e-5f,
       -6.9192624e-6f, -4.1969297e-6f, -2.5456343e-6f, -1.5440303e-6f, -9.365109e-7f,  -5.6802594e-7f, -3.445264e-7f,
       -2.0896628e-7f, -1.2674462e-7f, -7.6874564e-8f, -4.605148e-8f},
      {-5.149768e-3f, -4.0569734e-3f, -1.5163344e-3f, 6.183465e-4f,  1.5999556e-3f, 1.6858091e-3f,  1.3717363e-3f,
       9.848387e-4f,  6.598613e-4f,   4.247683e-4f,   2.6702692e-4f, 1.65499e-4f,   1.01701255e-4f, 6.2175226e-5f,
       3.7892525e-5f, 2.3049906e-5f,  1.4005146e-5f,  8.503637e-6f,  5.161062e-6f,  3.1315735e-6f,  1.8998484e-6f,
       1.152483e-6f,  6.990776e-7f,   4.2403457e-7f,  2.5719828e-7f, 1.5600169e-7f, 9.4620944e-8f,  5.739092e-8f,
       3.4809506e-8f, 2.1113083e-8f,  1.2805757e-8f,  8.770387e-9f},
  };
};

}  // namespace
}  // namespace strobe::cpu
