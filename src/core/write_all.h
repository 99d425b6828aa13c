// Writes a whole text to a descriptor, repeating short and interrupted writes.
#pragma once

#include <string_view>

namespace strobe {

// Returns 0, or the errno of the write that failed.
int write_all(int descriptor, std::string_view text);

}  // namespace strobe
