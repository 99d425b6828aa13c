// The one exception type of the library. Its text is a single line with the offending values.
#pragma once

#include <stdexcept>
#include <string>

namespace strobe {

enum class ErrorCode {
  invalid_argument = 1,  // the caller's input: shapes, strides, pointers, options
  unsupported = 2,       // valid, but no kernel (or not the one asked for) does it; the text says why
  out_of_memory = 3,     // bytes asked for are in the text
  runtime = 4,           // the device, a library underneath, or the system failed
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace strobe
