// Lists folders with opendir and readdir.
#include "core/file_names.h"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <new>

namespace strobe {
namespace {

struct Close {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

std::vector<std::string> file_names(const std::string& folder, std::error_code& error) {
  error.clear();
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Close> open(opendir(folder.c_str()));
  errno = open ? 0 : errno;
  for (const dirent* entry; open && (entry = readdir(open.get())) != nullptr; errno = 0) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno == ENOMEM) throw std::bad_alloc();
  if (errno != 0) error.assign(errno, std::generic_category());
  return names;
}

}  // namespace strobe
