// Lists the names in a folder. Replaces std::filesystem::directory_iterator, which in libstdc++ 12 terminates the
// process if an allocation fails.
#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace strobe {

// Returns the names of all entries except "." and "..", in unspecified order. If the folder cannot be read, sets
// `error` and returns the names read so far. Throws std::bad_alloc.
std::vector<std::string> file_names(const std::string& folder, std::error_code& error);

}  // namespace strobe
