// Opens regular files with O_NOFOLLOW and O_NONBLOCK, then checks them by fstat.
#include "core/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/fail.h"

namespace strobe {

void check_regular(mode_t mode, const std::string& shown) {
  if (S_ISREG(mode)) return;
  const char* const kind = S_ISDIR(mode) ? "a folder" : S_ISLNK(mode) ? "a symbolic link" : "not a regular file";
  fail(ErrorCode::invalid_argument, "{}: is {}; valid: a regular file", shown, kind);
}

void refuse_link(const std::string& path, const std::string& shown) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) check_regular(status.st_mode, shown);
}

Descriptor open_regular(const std::string& path, int flags, const std::string& shown) {
  Descriptor file(open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  const int error = errno;
  struct stat status {};
  if (file) {
    if (fstat(file.get(), &status) == 0) check_regular(status.st_mode, shown);
    return file;
  }
  if (lstat(path.c_str(), &status) == 0) check_regular(status.st_mode, shown);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  fail(ErrorCode::invalid_argument, "{}: cannot be {}: {}", shown, writes ? "written" : "read", std::strerror(error));
}

}  // namespace strobe
