// Invalid arguments for validate_test.cpp. Each entry changes a small valid problem and lists texts of the expected
// error message.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "attention/small_problem.h"

namespace strobe::test {

struct Refusal {
  const char* name;
  std::function<void(SmallProblem&)> change;
  std::vector<const char*> texts;  // all must occur in the error message
  ErrorCode code = ErrorCode::invalid_argument;
};

// Returns invalid values of `Attention` and `Execution`, which forward and backward reject with the same errors.
const std::vector<Refusal>& common_refusals();

// Makes a packed batch of two sequences: 1 and 2 rows, 0 and 5 keys.
void pack(SmallProblem& s);

inline constexpr std::int32_t kLengths[2] = {1, 3};

template <class T>
void shift(BasicView<T>& view, int bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  view.data = static_cast<Byte*>(view.data) + bytes;
}

template <class T>
T* shifted(T* pointer, int bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(pointer) + bytes);
}

}  // namespace strobe::test
