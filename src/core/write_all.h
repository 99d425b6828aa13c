// A whole text to a descriptor, however the system cuts it.
#pragma once

#include <string_view>

namespace strobe {

// 0, or the errno of what went wrong.
int write_all(int descriptor, std::string_view text);

}  // namespace strobe
