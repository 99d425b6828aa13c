// Non-owning views of the caller's tensors: a pointer, a shape, and strides in elements. The helper functions only
// compute strides; they neither read nor copy data and never throw. Invalid sizes are reported by the function that
// takes the view.
//
//   std::vector<float> q(B * H * S * D);
//   View view = view_bhsd<void>(q.data(), DType::fp32, {B, H, S, D});
#pragma once

#if __cplusplus <= 201703L
#error "strobe/view.h needs C++20: compile with -std=c++20 or later. C and older C++: include strobe/strobe.h."
#endif

#include <array>
#include <cstdint>
#include <type_traits>

#include "strobe/dtype.h"

namespace strobe {

// A tensor [batch, heads, sequence, dim]. Strides are in elements. The last stride must be 1 (for dO it may be 0). The
// others are free; 0 repeats the tensor along that dimension (inputs only). A default-constructed view means that the
// tensor is not given.
template <class Void>
struct BasicView {
  Void* data = nullptr;  // aligned to the element size
  DType dtype = DType::fp32;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> stride{};

  explicit operator bool() const { return data != nullptr; }
  template <class Const>  // a template because nvcc warns about a conversion to the same type
  requires std::is_same_v<Const, const Void>
  operator BasicView<Const>() const { return {data, dtype, shape, stride}; }
};

using View = BasicView<void>;
using ConstView = BasicView<const void>;

namespace detail {
// Returns a * b, wrapped on overflow. The function that takes the view rejects such sizes.
constexpr std::int64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
}  // namespace detail

// Returns a view of a contiguous tensor with memory order [B, H, S, D]. `shape` is {B, H, S, D} in this and the next
// two functions.
template <class Void>
BasicView<Void> view_bhsd(Void* data, DType dtype, std::array<std::int64_t, 4> shape) {
  const auto [b, h, s, d] = shape;
  (void)b;
  return {data, dtype, shape, {detail::product(h, detail::product(s, d)), detail::product(s, d), d, 1}};
}

// Returns a view of a contiguous tensor with memory order [B, S, H, D]. A packed batch [total, H, D] has B = 1 and
// S = total.
template <class Void>
BasicView<Void> view_bshd(Void* data, DType dtype, std::array<std::int64_t, 4> shape) {
  const auto [b, h, s, d] = shape;
  (void)b;
  return {data, dtype, shape, {detail::product(s, detail::product(h, d)), d, detail::product(h, d), 1}};
}

// Returns a view of Q (which = 0), K (1) or V (2) inside a packed tensor [B, S, 3, H, D].
template <class Void>
BasicView<Void> view_packed_qkv(Void* data, DType dtype, std::array<std::int64_t, 4> shape, int which) {
  const auto [b, h, s, d] = shape;
  (void)b;
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  const std::int64_t row = detail::product(3, detail::product(h, d));
  const std::int64_t skip = detail::product(which, detail::product(detail::product(h, d), size_of(dtype)));
  return {data ? static_cast<Byte*>(data) + skip : nullptr, dtype, shape, {detail::product(s, row), d, row, 1}};
}

// A boolean mask [batch, heads, sequence, keys], one byte per element: 0 masks the pair, any other value allows it.
// Strides are in elements and free; 0 repeats the mask along that dimension. A default-constructed view means that
// there is no mask.
struct MaskView {
  const void* data = nullptr;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> stride{};

  explicit operator bool() const { return data != nullptr; }
};

// Returns a view of a contiguous boolean mask.
inline MaskView view_mask(const void* data, std::array<std::int64_t, 4> shape) {
  const auto [b, h, s, k] = shape;
  (void)b;
  return {data, shape, {detail::product(h, detail::product(s, k)), detail::product(s, k), k, 1}};
}

// Lengths (one integer per sequence) or cumulative offsets (number of sequences + 1 integers). A default-constructed
// view means that they are not given.
struct IndexView {
  const void* data = nullptr;  // std::int32_t or std::int64_t
  int bits = 32;               // bits per integer: 32 or 64
  std::int64_t count = 0;      // number of integers

  explicit operator bool() const { return data != nullptr; }
  std::int64_t operator[](std::int64_t i) const {
    return bits == 64 ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

// Return a view of `count` integers at `data`.
inline IndexView view_index(const std::int32_t* data, std::int64_t count) { return {data, 32, count}; }
inline IndexView view_index(const std::int64_t* data, std::int64_t count) { return {data, 64, count}; }

}  // namespace strobe
