// Opens regular files that are read or written in place.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/descriptor.h"

namespace strobe {

// Opens a regular file with open(2)'s `flags`; O_CREAT creates it with mode 0666. Rejects a symbolic link as the last
// component of the path, but follows links in its folders. Rejects a FIFO, device or socket without waiting for the
// other end. Throws Error(invalid_argument) with `shown` before the reason.
Descriptor open_regular(const std::string& path, int flags, const std::string& shown);

// Throws Error(invalid_argument) as open_regular does if `path` is a symbolic link, even a dangling one.
void refuse_link(const std::string& path, const std::string& shown);

// Throws Error(invalid_argument) with `shown` before the reason unless `mode` (st_mode) is that of a regular file.
void check_regular(mode_t mode, const std::string& shown);

}  // namespace strobe
