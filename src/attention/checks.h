// Checks of views, lengths and memory for validate.cpp. Defined in check_view.cpp, check_lengths.cpp and
// check_overlap.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "attention/problem.h"
#include "strobe/view.h"

namespace strobe {

// Largest sequence length, number of heads and number of sequences. The margin of 64 leaves room for the 32-bit indices
// of kernels, which may pass the last row or key by one block.
inline constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1 - 64;
// Largest number of elements of a tensor, where expanded dimensions count in full. The size in bytes of a padded copy
// then fits into 63 bits.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

enum class Use {
  input,
  expanded_input,  // an input whose last stride may be 0 (dO)
  output,          // distinct elements must not share memory
};

enum class Pointers {
  required,  // the pointer of a tensor with elements must not be null
  ignored,   // the pointer may be null
};

struct ViewRule {
  const char* name;  // used in messages: "Q", "dO"
  Use use = Use::input;
  Pointers pointers = Pointers::required;
};

std::string text_of(const std::array<std::int64_t, 4>& values);  // "[2, 8, 128, 64]"

inline bool has_elements(const std::array<std::int64_t, 4>& shape) {
  return shape[0] != 0 && shape[1] != 0 && shape[2] != 0 && shape[3] != 0;
}

// Throws unless the dtype is valid, no size is negative and the view has at most kMaxElements elements.
void check_sizes(const ConstView& view, const char* name);
void check_shape(const std::array<std::int64_t, 4>& shape, const char* name);  // check_sizes() without the type
void check_size(const char* what, std::int64_t size);                          // throws if size exceeds kMaxSize

// Checks strides, span and pointer, and returns the strides for kernels. A stride that no address depends on may have
// any value and is replaced. A tensor without elements gets 0, 0, 0, 1. A dimension of size 1 gets the size of the last
// dimension as its stride, or 1 if it is the last one.
std::array<std::int64_t, 4> check_memory(const ConstView& view, const ViewRule& rule);

// Checks span and pointer of a boolean mask. Returns its strides, with 0 in dimensions of size 1.
std::array<std::int64_t, 4> check_mask_memory(const MaskView& mask, Pointers pointers);

// An array of `count` values of `bytes` bytes each, such as slopes, LSE or lengths.
struct PlainArray {
  const char* name;
  const void* data;
  std::int64_t count;
  std::int64_t bytes;
};
void check_array(const PlainArray& array);

// Checks lengths (padded batch) or cumulative offsets (packed batch). Reads every value on the CPU and none on CUDA.
// Sets max_seqlen_q, max_seqlen_k and the index views of the problem; for a packed batch also batch and packed.
void check_lengths(const Attention& attention, Problem& problem);

// Returns "" if every sequence has as many queries as keys, as far as is known without reading lengths. Otherwise
// returns the difference as part of an error message, such as "Sq 3 and Sk 5" or "only lengths_k".
std::string unequal_lengths(const Attention& attention);

// Memory of a tensor or an array: contiguous runs of `run` bytes, repeated along up to four dimensions.
struct Memory {
  struct Dimension {
    std::int64_t size, stride;  // stride in bytes, positive
  };

  const char* name;
  std::uintptr_t begin = 0, end = 0;  // address range of all runs; empty if there are no elements
  std::int64_t run = 0;
  std::array<Dimension, 4> dimensions{};
  std::size_t dimension_count = 0;

  // Requires a view that check_memory() has accepted, or a mask that check_mask_memory() has accepted.
  Memory(const char* name, const ConstView& view);
  Memory(const char* name, const void* data, std::size_t bytes);
  Memory(const char* name, const float* values, std::int64_t count);
  Memory(const char* name, const IndexView& indices);
  Memory(const char* name, const MaskView& mask);

 private:
  void add_dimension(std::int64_t size, std::int64_t stride);  // stride in bytes
};

// Returns true if a and b share a byte. The result is exact for views whose dimensions nest, such as slices, transposes
// and interleaved tensors. For other views the search is limited, and reaching the limit counts as overlap.
bool overlap(const Memory& a, const Memory& b);

// Throws Error(invalid_argument) if an output overlaps another output or an input.
void check_apart(std::span<const Memory> outputs, std::span<const Memory> inputs);

}  // namespace strobe
