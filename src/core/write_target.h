// Resolves and checks the file that a path names for writing, before anything is written.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace strobe {

struct WriteTarget {
  std::string path;                 // with symbolic links resolved, unless it is a device
  bool is_device = false;           // device, FIFO, /dev/stdout, /dev/fd/..., /proc/...: appended to, never replaced
  std::optional<mode_t> mode = {};  // permissions of the existing file
};

// The target need not exist. `shown` is the path with the flag it came from, for messages.
// Throws Error(invalid_argument) with the system's reason if the path is empty, a folder, a loop of links or read-only.
WriteTarget find_write_target(const std::string& path, const std::string& shown);

[[noreturn]] void refuse_write(const std::string& shown, int error);

}  // namespace strobe
