// Resolves a path that is to be written and checks it before anything is written. AtomicFile and FileSet use it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace strobe {

struct WriteTarget {
  std::string path;                 // symbolic links are resolved, except those to a device
  bool is_device = false;           // device, FIFO, /dev/stdout, /dev/fd/..., /proc/...: appended to, never replaced
  std::optional<mode_t> mode = {};  // permissions of the existing file
};

// Resolves `path` and checks that it can be written. The target need not exist. `shown` is the path with the flag that
// gave it, for messages. Throws Error(invalid_argument) with the reason if the path is empty, a folder, a loop of links
// or read-only.
WriteTarget find_write_target(const std::string& path, const std::string& shown);

// Throws Error(invalid_argument): the target cannot be written because of the errno value `error`.
[[noreturn]] void refuse_write(const std::string& shown, int error);

}  // namespace strobe
