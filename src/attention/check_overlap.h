// Checks that outputs share no memory with each other or with inputs. Called by validate.cpp and attention.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "strobe/view.h"

namespace strobe {

// The bytes of a tensor or an array: runs of `run` bytes, repeated along up to four dimensions.
struct Memory {
  struct Dimension {
    std::int64_t size, stride;  // stride in bytes, positive
  };

  const char* name;
  std::uintptr_t begin = 0, end = 0;  // range of all runs; equal if there is no element
  std::int64_t run = 0;
  std::array<Dimension, 4> dimensions{};
  std::size_t dimension_count = 0;

  // A checked view: check_memory() has bounded its sizes, strides and span.
  Memory(const char* name, const ConstView& view);
  Memory(const char* name, const void* data, std::size_t bytes);
  Memory(const char* name, const float* values, std::int64_t count);
  Memory(const char* name, const IndexView& indices);
};

// True if both share a byte. Exact for views whose dimensions nest, such as slices, transposes and interleaved tensors.
// For other views the search is bounded; they count as overlapping if it reaches its limit.
bool overlap(const Memory& a, const Memory& b);

// Throws Error(invalid_argument) if an output overlaps another output or an input.
void check_apart(std::span<const Memory> outputs, std::span<const Memory> inputs);

}  // namespace strobe
