// Element types of the CPU operations: storage types, their compute type (fp32, or double for double) and conversions.
// Tests use double to check gradients by finite differences.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/half.h"
#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

namespace {  // separate copy per instruction set

inline float widened(Bf16 x) { return bf16_to_float(x.bits); }
inline float widened(Fp16 x) { return fp16_to_float(x.bits); }
inline float widened(float x) { return x; }
inline double widened(double x) { return x; }

template <class T>
T narrowed(Compute<T> x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return {float_to_bf16(x)};
  } else if constexpr (std::is_same_v<T, Fp16>) {
    return {float_to_fp16(x)};
  } else {
    return x;
  }
}

}  // namespace

// Calls body(type) with a null pointer of the element type.
template <class Body>
void with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::fp32: return body(static_cast<float*>(nullptr));
    case DType::fp16: return body(static_cast<Fp16*>(nullptr));
    case DType::bf16: return body(static_cast<Bf16*>(nullptr));
  }
}

namespace {  // separate copy per instruction set

template <class T>
void widen_range(const T* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = widened(x[i]);
}

// Computes y += x.
template <class T>
void add_range(const T* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += widened(x[i]);
}

// Computes y = x or y += x, rounded once.
template <class T>
void narrow_range(const float* x, T* y, Into into, std::int64_t count) {
  if (into == Into::set) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = narrowed<T>(x[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = narrowed<T>(widened(y[i]) + x[i]);
  }
}

}  // namespace
}  // namespace strobe::ops
