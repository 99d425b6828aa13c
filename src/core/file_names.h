// The names in a folder, in place of std::filesystem::directory_iterator: that of libstdc++ 12 ends the process where
// an allocation fails.
#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace strobe {

// Without "." and "..", in no particular order. Sets `error` and returns what was read so far if the folder cannot be
// read. Throws std::bad_alloc without memory.
std::vector<std::string> file_names(const std::string& folder, std::error_code& error);

}  // namespace strobe
