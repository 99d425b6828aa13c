// Finds write targets with stat, access and readlink.
#include "core/write_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "core/fail.h"
#include "core/sync_folder.h"

namespace strobe {
namespace {

constexpr int kMaxLinks = 40;  // the kernel's limit

// Follows a chain of symbolic links to a file that may not exist.
std::string resolve_links(std::string path, const std::string& shown) {
  for (int links = 0; links < kMaxLinks; ++links) {
    char target[PATH_MAX];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length < 0) return path;  // not a link
    const std::string next(target, static_cast<std::size_t>(length));
    path = next.starts_with('/') ? next : folder_of(path) + "/" + next;
  }
  refuse_write(shown, ELOOP);
}

// Returns true if the path names an open descriptor. The reader of the descriptor would not get the contents of a file
// that replaces the path.
bool names_descriptor(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

}  // namespace

void refuse_write(const std::string& shown, int error) {
  fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown, std::strerror(error));
}

WriteTarget find_write_target(const std::string& path, const std::string& shown) {
  if (path.empty()) fail(ErrorCode::invalid_argument, "{}: a file name is needed", shown);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) refuse_write(shown, errno);
    return {.path = resolve_links(path, shown)};
  }
  if (S_ISDIR(status.st_mode)) fail(ErrorCode::invalid_argument, "{}: is a folder; a file name is needed", shown);
  if (access(path.c_str(), W_OK) != 0) refuse_write(shown, errno);
  const mode_t mode = status.st_mode & 0777;
  if (!S_ISREG(status.st_mode) || names_descriptor(path)) return {.path = path, .is_device = true, .mode = mode};
  return {.path = resolve_links(path, shown), .mode = mode};
}

}  // namespace strobe
