// Linux tells it through /proc.
#include "process/this_program.h"

#include <system_error>

#include "core/fail.h"

namespace strobe {

std::filesystem::path this_program() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::runtime, "/proc/self/exe: {}", error.message());
  return path;
}

}  // namespace strobe
