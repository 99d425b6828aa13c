// Checks of one tensor's view, by itself: type, sizes, strides, the bytes it spans, its pointer. Called by
// validate.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "strobe/view.h"

namespace strobe {

// Indices inside a sequence, and sequences and heads themselves, are 32-bit in kernels, with room for one more block.
inline constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1 - 64;
// Of a tensor, expanded ones included: kernels multiply it by padding and element sizes in 63 bits.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

enum class Use {
  input,
  expanded_input,  // the last stride may be 0: dO
  output,          // distinct elements must not share memory
};

enum class Pointers {
  required,  // a tensor with elements needs memory
  ignored,   // only sizes are asked about
};

struct ViewRule {
  const char* name;  // as texts spell it: "Q", "dO"
  Use use = Use::input;
  Pointers pointers = Pointers::required;
};

std::string text_of(const std::array<std::int64_t, 4>& values);  // "[2, 8, 128, 64]"

inline bool has_elements(const std::array<std::int64_t, 4>& shape) {
  return shape[0] != 0 && shape[1] != 0 && shape[2] != 0 && shape[3] != 0;
}

// Type known, sizes not negative and not absurd. The sequence dimension of a packed batch is only bounded by the
// number of elements; check_size() bounds its sequences.
void check_sizes(const ConstView& view, const char* name);
void check_size(const char* what, std::int64_t size);

// Strides, span and pointer. Returns the strides that kernels see: what the caller may leave undefined is made
// harmless (a tensor without elements: 0, 0, 0, 1; a dimension of size 1: the head dimension, or 1 if it is last).
std::array<std::int64_t, 4> check_memory(const ConstView& view, const ViewRule& rule);

// A pointer to `count` plain values of `bytes` each: [Hq] slopes, LSE, lengths.
struct PlainArray {
  const char* name;
  const void* data;
  std::int64_t count;
  std::int64_t bytes;
};
void check_array(const PlainArray& array);

}  // namespace strobe
