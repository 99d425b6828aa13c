// The library's exception type. what() is a single line that contains the invalid values.
#pragma once

#include <stdexcept>
#include <string>

namespace strobe {

enum class ErrorCode {
  invalid_argument = 1,  // bad input: shapes, strides, pointers, options
  unsupported = 2,       // valid input that every kernel, or the named one, refuses; what() contains the reason
  out_of_memory = 3,     // what() contains the requested size if it is known
  runtime = 4,           // the device, a library or the system failed
};

//   try { strobe::forward(attention, outputs); } catch (const strobe::Error& error) { puts(error.what()); }
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace strobe
