// Where this program lies, and what lies beside it.
#pragma once

#include <filesystem>

namespace strobe {

// Throws Error(runtime) where the system does not tell.
std::filesystem::path this_program();

}  // namespace strobe
