// POSIX: a new name beside the target, write, fsync, rename, fsync of the folder.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "core/fail.h"
#include "core/write_all.h"

namespace strobe {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The file that a chain of symbolic links leads to, whether it exists or not.
std::string behind_links(std::string path, const std::string& shown) {
  for (int links = 0; links < 40; ++links) {
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length < 0) return path;  // not a link
    const std::string next(target, static_cast<std::size_t>(length));
    path = next.starts_with('/') ? next : folder_of(path) + "/" + next;
  }
  fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown, std::strerror(ELOOP));
}

// A descriptor of some process under a file's name: what is behind it belongs to whoever opened it.
bool names_descriptor(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

// Names of temporary files for remove_temporary_files(): fixed room, since a signal handler must not allocate.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<bool> named{false};
  char name[4096];
};
Slot slots[8];

int register_name(const std::string& name) {
  if (name.size() >= sizeof(Slot::name)) return -1;
  for (int i = 0; i < 8; ++i) {
    if (slots[i].taken.exchange(true)) continue;
    std::memcpy(slots[i].name, name.c_str(), name.size() + 1);
    slots[i].named = true;
    return i;
  }
  return -1;
}

void forget_name(int& slot) {
  if (slot < 0) return;
  slots[slot].named = false;
  slots[slot].taken = false;
  slot = -1;
}

// Six letters that no other file has, but by a chance of one in 10^10.
std::string random_suffix() {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string suffix = ".";
  for (int i = 0; i < 6; ++i) suffix += kLetters[random() % kLetters.size()];
  return suffix;
}

}  // namespace

void check_apart(std::string_view what, const std::string& path, std::string_view other_what,
                 const std::string& other) {
  std::error_code error;
  const auto is_plain = [&](const std::string& name) {
    return !name.empty() && name != "-" &&
           (std::filesystem::is_regular_file(name, error) || !std::filesystem::exists(name, error));
  };
  if (!is_plain(path) || !is_plain(other)) return;
  const auto behind_links = [&](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(name, error), error);
  };
  if (!std::filesystem::equivalent(path, other, error) && behind_links(path) != behind_links(other)) return;
  fail(ErrorCode::invalid_argument, "{} {}: is the file of {} too; valid: one of its own", what, path, other_what);
}

void remove_temporary_files() noexcept {
  for (Slot& slot : slots) {
    if (slot.named) unlink(slot.name);
  }
}

AtomicFile::AtomicFile(std::string path, std::string asked_by) : path_(std::move(path)) {
  const auto refuse = [&](int error) {
    fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown_, std::strerror(error));
  };
  shown_ = asked_by + " " + (path_.empty() ? "\"\"" : path_);
  if (path_.empty()) fail(ErrorCode::invalid_argument, "{}: a file name is needed", shown_);
  struct stat status {};
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (exists) {
    if (S_ISDIR(status.st_mode)) fail(ErrorCode::invalid_argument, "{}: is a folder; a file name is needed", shown_);
    if (access(path_.c_str(), W_OK) != 0) refuse(errno);
    if (!S_ISREG(status.st_mode) || names_descriptor(path_)) return;  // commit writes to it
  }
  path_ = behind_links(std::move(path_), shown_);
  // Registered before it is there, so that a signal at any time removes it.
  do {
    forget_name(slot_);
    temporary_ = path_ + random_suffix();
    slot_ = register_name(temporary_);
    descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    const int error = errno;
    forget_name(slot_);
    temporary_.clear();
    refuse(error);
  }
  if (exists) fchmod(descriptor_, status.st_mode & 0777);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  forget_name(slot_);
}

void AtomicFile::check(bool fine, const char* step) const {
  if (!fine) fail(ErrorCode::runtime, "{}: {} failed: {}", shown_, step, std::strerror(errno));
}

void AtomicFile::write(std::string_view contents) {
  if (descriptor_ < 0) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    check(descriptor_ >= 0, "opening");
  }
  errno = write_all(descriptor_, contents);
  check(errno == 0, "writing");
}

void AtomicFile::commit() {
  if (temporary_.empty()) return;
  check(fsync(descriptor_) == 0, "syncing");
  check(close(std::exchange(descriptor_, -1)) == 0, "closing");
  check(rename(temporary_.c_str(), path_.c_str()) == 0, "renaming");
  temporary_.clear();
  forget_name(slot_);
  const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

void AtomicFile::check_room(std::uint64_t bytes) const {
  struct statvfs disk {};
  if (temporary_.empty() || fstatvfs(descriptor_, &disk) != 0 || disk.f_blocks == 0) return;  // it does not say
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free >= bytes) return;
  fail(ErrorCode::runtime, "{}: needs {} bytes, of which the disk has {} free", shown_, bytes, free);
}

}  // namespace strobe
