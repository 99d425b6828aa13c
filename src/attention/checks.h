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

// Checks of a single tensor's view: type, sizes, strides, the bytes it spans, its pointer.

// Kernels use 32 bits for indices within a sequence, sequences and heads, with room for one more block.
inline constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1 - 64;
// Per tensor, including expanded ones: kernels multiply it by padding and element sizes in 63 bits.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

enum class Use {
  input,
  expanded_input,  // the last stride may be 0: dO
  output,          // distinct elements must not share memory
};

enum class Pointers {
  required,  // a tensor with elements needs memory
  ignored,   // only sizes matter
};

struct ViewRule {
  const char* name;  // as in messages: "Q", "dO"
  Use use = Use::input;
  Pointers pointers = Pointers::required;
};

std::string text_of(const std::array<std::int64_t, 4>& values);  // "[2, 8, 128, 64]"

inline bool has_elements(const std::array<std::int64_t, 4>& shape) {
  return shape[0] != 0 && shape[1] != 0 && shape[2] != 0 && shape[3] != 0;
}

// Checks that the type is known and sizes are neither negative nor absurd. The sequence dimension of a packed batch is
// bounded only by the number of elements; check_size() bounds its sequences.
void check_sizes(const ConstView& view, const char* name);
void check_shape(const std::array<std::int64_t, 4>& shape, const char* name);  // check_sizes() without the type
void check_size(const char* what, std::int64_t size);

// Checks strides, span and pointer. Returns the strides for kernels. Strides that the caller may leave undefined get
// harmless values: 0, 0, 0, 1 for a tensor without elements; for a dimension of size 1 the head dimension, or 1 if it
// is the last.
std::array<std::int64_t, 4> check_memory(const ConstView& view, const ViewRule& rule);

// Checks span and pointer of a boolean mask. Returns its strides: 0 in dimensions of size 1.
std::array<std::int64_t, 4> check_mask_memory(const MaskView& mask, Pointers pointers);

// A pointer to `count` plain values of `bytes` each: [Hq] slopes, LSE, lengths.
struct PlainArray {
  const char* name;
  const void* data;
  std::int64_t count;
  std::int64_t bytes;
};
void check_array(const PlainArray& array);

// Batches of variable length: lengths per sequence, or cumulative offsets of packed sequences.

// Reads every index on the CPU, none on CUDA. Sets batch, max_q, max_k, packed and the index views.
void check_lengths(const Attention& attention, Problem& problem);

// Returns "" if every sequence is known, without reading lengths, to have as many rows as keys. Otherwise returns the
// difference for a message: "Sq 3 and Sk 5", "lengths_k".
std::string unequal_lengths(const Attention& attention);

// Checks that outputs share no memory with each other or with inputs.

// The bytes of a tensor or an array: runs of `run` bytes, repeated along up to four dimensions.
struct Memory {
  struct Dimension {
    std::int64_t size, stride;  // stride in bytes, positive
  };

  const char* name;
  std::uintptr_t begin = 0, end = 0;  // range of all runs; equal if there are no elements
  std::int64_t run = 0;
  std::array<Dimension, 4> dimensions{};
  std::size_t dimension_count = 0;

  // Requires a view whose sizes, strides and span check_memory() has bounded.
  Memory(const char* name, const ConstView& view);
  Memory(const char* name, const void* data, std::size_t bytes);
  Memory(const char* name, const float* values, std::int64_t count);
  Memory(const char* name, const IndexView& indices);
  Memory(const char* name, const MaskView& mask);

 private:
  void add_dimension(std::int64_t size, std::int64_t stride);  // stride in bytes
};

// True if both share a byte. Exact for views whose dimensions nest, such as slices, transposes and interleaved tensors.
// For other views the search is bounded; they count as overlapping if it reaches its limit.
bool overlap(const Memory& a, const Memory& b);

// Throws Error(invalid_argument) if an output overlaps another output or an input.
void check_apart(std::span<const Memory> outputs, std::span<const Memory> inputs);

}  // namespace strobe
