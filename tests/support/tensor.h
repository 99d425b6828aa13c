// Test tensors in which every byte outside the view's elements is a canary: the guards before and after, and the gaps
// of strided layouts. Canaries are NaN, so a kernel that reads one spreads NaN; stray_write() finds a kernel that
// overwrites one. With AddressSanitizer there is no guard after the data: the last element ends the allocation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strobe/view.h"

namespace strobe::test {

using Shape = std::array<std::int64_t, 4>;

inline std::int64_t count_of(const Shape& shape) { return shape[0] * shape[1] * shape[2] * shape[3]; }

// One allocation, which several views may share (as packed QKV does).
class GuardedBuffer {
 public:
  // Sets the size: `count` elements, the first `misalign` elements past a multiple of 64 bytes. Contents are undefined
  // until poison().
  GuardedBuffer(DType dtype, std::int64_t count, std::int64_t misalign);
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() { return first_; }
  const void* data() const { return first_; }
  DType dtype() const { return dtype_; }
  // Returns all bytes, guards included, for a copy to another device.
  std::vector<char>& bytes() { return bytes_; }
  const std::vector<char>& bytes() const { return bytes_; }

  // Marks the elements of a view of this buffer as owned: a kernel may write them. Call poison() afterwards.
  void own(const View& view);

  // Fills owned elements with one kind of NaN and all other bytes with the canary.
  void poison();
  void remember() { memory_ = bytes_; }

  // Describes the first changed element outside the owned elements; empty if there is none.
  std::string stray_write() const;
  // Describes the first element that differs from its value at the last remember(); empty if there is none.
  std::string changed() const;

 private:
  struct Span {
    std::int64_t begin, end;  // indices of elements
  };
  template <class Visit>
  void for_each_gap(Visit&& visit) const;

  DType dtype_;
  std::vector<char> bytes_;
  std::vector<char> memory_;
  std::vector<Span> owned_;  // sorted and disjoint
  char* first_ = nullptr;
  std::int64_t count_ = 0;
};

// A view of a buffer. Elements are read and written as float by logical index.
struct Tensor {
  View view;
  std::shared_ptr<GuardedBuffer> buffer;

  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t c) const {
    return b * view.stride[0] + h * view.stride[1] + s * view.stride[2] + c * view.stride[3];
  }
  float at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t c) const;
  void set(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t c, float value);

  // Returns the elements in logical order [b][h][s][c], for comparison.
  std::vector<double> gather() const;
};

// Memory layout of a tensor. Expanded layouts are for inputs only.
enum class Layout { bhsd, bshd, padded, expanded_batch, expanded_heads, expanded_rows, expanded_last, expanded_all };
inline constexpr Layout kLayouts[] = {Layout::bhsd,           Layout::bshd,           Layout::padded,
                                      Layout::expanded_batch, Layout::expanded_heads, Layout::expanded_rows,
                                      Layout::expanded_last,  Layout::expanded_all};
const char* name_of(Layout layout);

struct TensorOptions {
  DType dtype = DType::fp32;
  Shape shape{};
  Layout layout = Layout::bhsd;
  std::int64_t misalign = 0;  // in elements
};

Tensor make_tensor(const TensorOptions& options);

// Returns views of one buffer [B, S, sum of heads, D], one per entry of `heads`, as from a fused QKV projection.
std::vector<Tensor> make_fused(DType dtype, const Shape& shape, const std::vector<std::int64_t>& heads);

// Calls visit(b, h, s, c) for every index; the last one varies fastest.
template <class Visit>
void for_each(const Shape& shape, Visit&& visit) {
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t s = 0; s < shape[2]; ++s)
        for (std::int64_t c = 0; c < shape[3]; ++c) visit(b, h, s, c);
}

}  // namespace strobe::test
