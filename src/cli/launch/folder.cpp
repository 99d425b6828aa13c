#include "cli/launch/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/fail.h"
#include "core/file_names.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

constexpr std::string_view kPrefix = "strobe-launch-";
constexpr std::size_t kRandomDigits = 6;                                     // of mkdtemp's template
constexpr std::size_t kSocketName = 1 + kPrefix.size() + kRandomDigits + 7;  // "/strobe-launch-XXXXXX/socket"

// Returns the locked folder's descriptor, or -1 if it is gone, another user's, a link, or locked by another process.
int lock_folder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return -1;
  struct stat opened {
  }, named{};
  const bool ours = fstat(descriptor, &opened) == 0 && opened.st_uid == geteuid() && (opened.st_mode & 077) == 0;
  // Another process may remove the folder between open and flock.
  const bool locked = ours && flock(descriptor, LOCK_EX | LOCK_NB) == 0 && lstat(path.c_str(), &named) == 0 &&
                      named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
  if (locked) return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

// Tries three times: processes of the job that are about to end may add or remove files meanwhile.
void remove_folder(const std::filesystem::path& path) {
  std::error_code error;
  for (int tries = 0; tries < 3; ++tries) {
    std::filesystem::remove_all(path, error);
    if (!error) return;
  }
}

// False if the folder holds any other file: it may be the user's own.
bool holds_only_job_files(const std::filesystem::path& path) {
  std::error_code error;
  for (const std::string& name : file_names(path.string(), error)) {
    const auto begins = [&](std::string_view text) { return name.starts_with(text); };
    if (name != "socket" && !begins("ompi.") && !begins("pmix") && !begins("vader_segment.") && !begins(kPrefix))
      return false;
  }
  return !error;
}

bool is_private_folder(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & 077) == 0;
}

}  // namespace

LockedFolder::LockedFolder(const std::filesystem::path& base) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && lock_ < 0; ++i) {
    std::string name = (base / kPrefix).string() + std::string(kRandomDigits, 'X');
    if (!mkdtemp(name.data()))
      fail(ErrorCode::runtime, "launch: cannot create a folder in {}: {}", printable_value(base.string()),
           std::strerror(errno));
    lock_ = lock_folder(name);
    const int error = errno;
    if (lock_ >= 0) path_ = name;
    if (lock_ >= 0 || error == ENOENT) continue;  // a launcher that cleans up was faster
    remove_folder(name);
    if (error == EWOULDBLOCK) continue;
    fail(ErrorCode::runtime, "launch: {}: {}", printable_value(name), std::strerror(error));
  }
  if (lock_ < 0) fail(ErrorCode::runtime, "launch: cannot lock a folder in {}", printable_value(base.string()));
}

LockedFolder::~LockedFolder() {
  remove_folder(path_);
  close(lock_);
}

void remove_dead_folders(const std::filesystem::path& base) {
  std::error_code ignored;
  for (const std::string& name : file_names(base.string(), ignored)) {
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kRandomDigits) continue;
    const std::filesystem::path path = base / name;
    const int lock = lock_folder(path.string());
    if (lock < 0) continue;
    if (holds_only_job_files(path)) remove_folder(path);
    close(lock);
  }
}

std::filesystem::path job_folder_base() {
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  const char* const temporary = getenv("TMPDIR");
  std::string tried;
  for (const char* base : {runtime && is_private_folder(runtime) ? runtime : nullptr, temporary, "/tmp"}) {
    if (!base || base[0] != '/') continue;
    const bool fits = std::strlen(base) + kSocketName < sizeof(sockaddr_un::sun_path);
    if (fits && access(base, W_OK | X_OK) == 0) return base;
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", printable(base),
                         fits ? std::strerror(errno) : "too long for a socket");
  }
  fail(ErrorCode::runtime, "launch: no folder can hold the ranks' socket: {}; set TMPDIR to a short, writable one",
       tried);
}

std::filesystem::path shared_memory_base(const std::filesystem::path& otherwise) {
  constexpr const char* kSharedMemory = "/dev/shm";
  return access(kSharedMemory, W_OK | X_OK) == 0 ? std::filesystem::path(kSharedMemory) : otherwise;
}

}  // namespace strobe::cli
