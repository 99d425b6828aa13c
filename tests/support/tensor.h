// Test tensors whose every byte outside the view's elements is a canary that reads as NaN: guards before and after,
// gaps of strided layouts. A kernel that reads there spreads NaN; stray_write() finds one that writes there.
// Under AddressSanitizer there is no guard behind: the last element ends the allocation.
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

// One allocation, which several views may share (packed QKV).
class GuardedBuffer {
 public:
  // `count` elements; the first is `misalign` elements past a multiple of 64 bytes. Nothing is allocated yet.
  GuardedBuffer(DType dtype, std::int64_t count, std::int64_t misalign);
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() { return first_; }
  const void* data() const { return first_; }
  DType dtype() const { return dtype_; }
  // All bytes, guards included: what a copy on another device is made of.
  std::vector<char>& bytes() { return bytes_; }
  const std::vector<char>& bytes() const { return bytes_; }

  // Counts the elements of a view of this buffer as owned: those that a kernel may write. poison() comes next.
  void own(const View& view);

  // Owned elements become a NaN of their own kind, all other bytes the canary.
  void poison();
  void remember() { memory_ = bytes_; }

  // Empty, or which byte outside of the owned elements is no longer the canary.
  std::string stray_write() const;
  // Empty, or which byte differs from what remember() saw.
  std::string changed() const;

 private:
  struct Span {
    std::int64_t begin, end;  // elements
  };
  template <class Visit>
  void for_each_gap(Visit&& visit) const;

  DType dtype_;
  std::vector<char> bytes_;
  std::vector<char> memory_;
  std::vector<Span> owned_;  // in order, apart from each other
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

  // Logical order [b][h][s][c], for comparison.
  std::vector<double> gather() const;
};

// Memory layout of a tensor. The expanded ones are for inputs only.
enum class Layout { bhsd, bshd, padded, expanded_batch, expanded_heads, expanded_rows, expanded_last, expanded_all };
inline constexpr Layout kLayouts[] = {Layout::bhsd,           Layout::bshd,           Layout::padded,
                                      Layout::expanded_batch, Layout::expanded_heads, Layout::expanded_rows,
                                      Layout::expanded_last,  Layout::expanded_all};
const char* name_of(Layout layout);

struct TensorOptions {
  DType dtype = DType::fp32;
  Shape shape{};
  Layout layout = Layout::bhsd;
  std::int64_t misalign = 0;  // elements
};

Tensor make_tensor(const TensorOptions& options);

// Views of one buffer [B, S, sum of heads, D], one for each entry of `heads`: a fused projection of Q, K and V.
std::vector<Tensor> make_fused(DType dtype, const Shape& shape, const std::vector<std::int64_t>& heads);

// Calls visit(b, h, s, c) for every index, the last fastest.
template <class Visit>
void for_each(const Shape& shape, Visit&& visit) {
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t s = 0; s < shape[2]; ++s)
        for (std::int64_t c = 0; c < shape[3]; ++c) visit(b, h, s, c);
}

}  // namespace strobe::test
