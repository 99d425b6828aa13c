// Non-owning views of the caller's tensors: a pointer, a shape and strides in elements.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "strobe/dtype.h"

namespace strobe {

// A tensor [batch, heads, sequence, dim]. The last stride is 1 (0 too for dO); the others are free, 0 included
// (an expanded tensor). A view without data and without a shape is absent.
template <class Void>
struct BasicView {
  Void* data = nullptr;
  DType dtype = DType::fp32;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> stride{};

  explicit operator bool() const { return data != nullptr; }
  template <class Const>  // a template, since nvcc warns of a view's conversion to its own type
  requires std::is_same_v<Const, const Void>
  operator BasicView<Const>() const { return {data, dtype, shape, stride}; }
};

using View = BasicView<void>;
using ConstView = BasicView<const void>;

namespace detail {
// Wraps where the product is absurd: the function that takes the view refuses its sizes.
constexpr std::int64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
}  // namespace detail

// Memory order batch, heads, sequence, dim. shape is [B, H, S, D] in all three helpers.
template <class Void>
BasicView<Void> view_bhsd(Void* data, DType dtype, std::array<std::int64_t, 4> shape) {
  const auto [b, h, s, d] = shape;
  (void)b;
  return {data, dtype, shape, {detail::product(h, detail::product(s, d)), detail::product(s, d), d, 1}};
}

// Memory order batch, sequence, heads, dim. A packed batch of sequences [total, H, D] is this with B = 1, S = total.
template <class Void>
BasicView<Void> view_bshd(Void* data, DType dtype, std::array<std::int64_t, 4> shape) {
  const auto [b, h, s, d] = shape;
  (void)b;
  return {data, dtype, shape, {detail::product(s, detail::product(h, d)), d, detail::product(h, d), 1}};
}

// One of Q (which = 0), K (1), V (2) inside a packed tensor [B, S, 3, H, D].
template <class Void>
BasicView<Void> view_packed_qkv(Void* data, DType dtype, std::array<std::int64_t, 4> shape, int which) {
  const auto [b, h, s, d] = shape;
  (void)b;
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  const std::int64_t row = detail::product(3, detail::product(h, d));
  const std::int64_t skip = detail::product(which, detail::product(detail::product(h, d), size_of(dtype)));
  return {data ? static_cast<Byte*>(data) + skip : nullptr, dtype, shape, {detail::product(s, row), d, row, 1}};
}

// One integer per sequence (lengths), or cumulative offsets (one more than there are sequences).
struct IndexView {
  const void* data = nullptr;  // int32 or int64
  int bits = 32;               // 32 or 64
  std::int64_t count = 0;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t operator[](std::int64_t i) const {
    return bits == 64 ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

inline IndexView view_index(const std::int32_t* data, std::int64_t count) { return {data, 32, count}; }
inline IndexView view_index(const std::int64_t* data, std::int64_t count) { return {data, 64, count}; }

}  // namespace strobe
