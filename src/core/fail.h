// fail() throws strobe::Error with a formatted message. All code that reports errors calls it.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "strobe/error.h"

namespace strobe {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace strobe
