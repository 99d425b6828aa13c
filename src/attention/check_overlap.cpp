// Implements overlap() and check_apart() of checks.h: decides if two strided tensors share memory. They do if the
// difference of two element offsets, one from each tensor, is in a small interval. The search visits strides from
// largest to smallest and prunes sums that the remaining strides cannot bring into the interval.
#include "attention/checks.h"

#include <algorithm>

#include "core/fail.h"

namespace strobe {

namespace {

// Number of search steps after which two tensors count as overlapping. Tensors with nested dimensions need a few dozen
// steps.
constexpr int kMostSteps = 20000;

// Represents the values stride * i for all integers i in [low, high].
struct Term {
  std::int64_t stride, low, high;
};

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

class Search {
 public:
  Search(const Memory& a, const Memory& b) {
    for (std::size_t i = 0; i < a.dimension_count; ++i) add({a.dimensions[i].stride, 0, a.dimensions[i].size - 1});
    for (std::size_t i = 0; i < b.dimension_count; ++i) add({b.dimensions[i].stride, 1 - b.dimensions[i].size, 0});
    std::sort(terms_.begin(), terms_.begin() + static_cast<std::ptrdiff_t>(count_),
              [](const Term& left, const Term& right) { return left.stride > right.stride; });
    for (std::size_t i = count_; i-- > 0;) {
      reach_[i].low = reach_[i + 1].low + terms_[i].low * terms_[i].stride;
      reach_[i].high = reach_[i + 1].high + terms_[i].high * terms_[i].stride;
    }
  }

  // Returns true if the terms from `first` on can have a sum in [low, high], or if the search takes too many steps.
  bool finds(std::int64_t low, std::int64_t high, std::size_t first = 0) {
    if (low > reach_[first].high || high < reach_[first].low) return false;
    if (first == count_ || ++steps_ > kMostSteps) return true;
    const Term& term = terms_[first];
    const Range rest = reach_[first + 1];
    const std::int64_t from = std::max(term.low, -floor_divide(rest.high - low, term.stride));
    const std::int64_t to = std::min(term.high, floor_divide(high - rest.low, term.stride));
    for (std::int64_t factor = from; factor <= to; ++factor) {
      if (finds(low - factor * term.stride, high - factor * term.stride, first + 1)) return true;
    }
    return false;
  }

 private:
  struct Range {
    std::int64_t low = 0, high = 0;
  };

  // Adds a term. Terms of equal stride are merged, since only the difference of their indices matters.
  void add(const Term& term) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (terms_[i].stride != term.stride) continue;
      terms_[i].low += term.low;
      terms_[i].high += term.high;
      return;
    }
    terms_[count_++] = term;
  }

  std::array<Term, 8> terms_{};
  std::size_t count_ = 0;
  std::array<Range, 9> reach_{};  // [i]: range of the sum of terms i and later
  int steps_ = 0;
};

void check_pair(const Memory& a, const Memory& b) {
  if (!overlap(a, b)) return;
  if (a.begin == b.begin) {
    fail(ErrorCode::invalid_argument, "attention: {} and {} are the same memory, at {}", a.name, b.name,
         reinterpret_cast<const void*>(a.begin));
  }
  fail(ErrorCode::invalid_argument,
       "attention: {} and {} overlap: they span {:#x} to {:#x} and {:#x} to {:#x}; outputs must not share memory",
       a.name, b.name, a.begin, a.end, b.begin, b.end);
}

}  // namespace

Memory::Memory(const char* tensor, const ConstView& view) : name(tensor) {
  if (!view.data || view.shape[0] == 0 || view.shape[1] == 0 || view.shape[2] == 0 || view.shape[3] == 0) return;
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  run = view.stride[3] == 0 ? bytes : view.shape[3] * bytes;
  begin = reinterpret_cast<std::uintptr_t>(view.data);
  end = begin + static_cast<std::uintptr_t>(run);
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.shape[i] != 1) add_dimension(view.shape[i], view.stride[i] * bytes);
  }
}

void Memory::add_dimension(std::int64_t size, std::int64_t stride) {
  if (stride == 0) return;
  const std::int64_t reach = (size - 1) * stride;
  if (stride < 0) {
    begin -= static_cast<std::uintptr_t>(-reach);
  } else {
    end += static_cast<std::uintptr_t>(reach);
  }
  dimensions[dimension_count++] = {size, stride < 0 ? -stride : stride};
}

Memory::Memory(const char* array, const void* data, std::size_t bytes) : name(array) {
  if (!data || bytes == 0) return;
  begin = reinterpret_cast<std::uintptr_t>(data);
  end = begin + bytes;
  run = static_cast<std::int64_t>(bytes);
}

Memory::Memory(const char* array, const float* values, std::int64_t count)
    : Memory(array, static_cast<const void*>(values), static_cast<std::size_t>(count) * sizeof(float)) {}

Memory::Memory(const char* array, const IndexView& indices)
    : Memory(array, indices.data,
             static_cast<std::size_t>(indices.count) * static_cast<std::size_t>(indices.bits / 8)) {}

// The last dimension of a mask may have any stride, so each element is a separate run.
Memory::Memory(const char* mask_name, const MaskView& mask) : name(mask_name) {
  if (!mask.data || !has_elements(mask.shape)) return;
  run = 1;
  begin = reinterpret_cast<std::uintptr_t>(mask.data);
  end = begin + 1;
  for (std::size_t i = 0; i < 4; ++i) {
    if (mask.shape[i] != 1) add_dimension(mask.shape[i], mask.stride[i]);
  }
}

bool overlap(const Memory& a, const Memory& b) {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  // The runs a.begin + x + [0, a.run) and b.begin + y + [0, b.run) share a byte if x - y is in this interval.
  const auto difference = static_cast<std::int64_t>(b.begin - a.begin);
  return Search(a, b).finds(difference - a.run + 1, difference + b.run - 1);
}

void check_apart(std::span<const Memory> outputs, std::span<const Memory> inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = i + 1; j < outputs.size(); ++j) check_pair(outputs[i], outputs[j]);
    for (const Memory& input : inputs) check_pair(outputs[i], input);
  }
}

}  // namespace strobe
