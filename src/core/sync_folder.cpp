// Syncs folders by fsync.
#include "core/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/descriptor.h"

namespace strobe {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

int sync_folder(int descriptor) {
  while (fsync(descriptor) != 0) {
    if (errno == EINTR) continue;
    return errno == EINVAL || errno == EROFS || errno == EOPNOTSUPP ? 0 : errno;
  }
  return 0;
}

int sync_folder(const std::string& folder) {
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno == EACCES ? 0 : errno;
  return sync_folder(opened.get());
}

}  // namespace strobe
