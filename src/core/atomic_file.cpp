// Implements AtomicFile. The temporary file is unnamed (O_TMPFILE, linkat) if the file system supports that; otherwise
// it has a name from the start.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/fail.h"
#include "core/regular_file.h"
#include "core/sync_folder.h"
#include "core/temporary_file.h"
#include "core/write_all.h"
#include "core/write_target.h"

namespace strobe {
namespace {

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string name_in_proc(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// Links an unnamed file at the path `to`. Fails with EEXIST if `to` exists.
bool link_unnamed(int descriptor, const std::string& to) {
  if (linkat(descriptor, "", AT_FDCWD, to.c_str(), AT_EMPTY_PATH) == 0) return true;
  // These errors mean that AT_EMPTY_PATH is not permitted. The link in /proc needs no privileges.
  if (errno != ENOENT && errno != EPERM && errno != EINVAL) return false;
  return linkat(AT_FDCWD, name_in_proc(descriptor).c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

// Opens an unnamed file (O_TMPFILE) for link_unnamed(). Empty if the file system does not support it or /proc is
// missing.
Descriptor open_unnamed(const std::string& folder) {
  Descriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (file && access(name_in_proc(file.get()).c_str(), F_OK) != 0) file.reset();
  return file;
}

// Locks the file to mark it as used by a running process. On file systems without flock, the files of killed processes
// are never removed.
void hold(int descriptor) {
  while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
  }
}

bool has_a_name(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) != 0 || status.st_nlink > 0;
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
  fail(ErrorCode::invalid_argument, "{} {}: is also the file of {}; valid: a separate file", what, path, other_what);
}

void remove_temporary_files() noexcept { remove_listed_files(); }

AtomicFile::AtomicFile(std::string path, std::string asked_by, Links links) : path_(std::move(path)) {
  shown_ = asked_by + " " + (path_.empty() ? "\"\"" : path_);
  if (links == Links::refuse && !path_.empty()) refuse_link(path_, shown_);
  WriteTarget target = find_write_target(path_, shown_);
  path_ = std::move(target.path);
  is_device_ = target.is_device;
  if (is_device_) return;
  open_temporary();
  if (target.mode) fchmod(file_.get(), *target.mode);
}

void AtomicFile::open_temporary() {
  const std::string folder = folder_of(path_), stem = temporary_stem(file_name_of(path_));
  remove_stale_temporaries(folder, [&](std::string_view found) { return found == stem; });
  file_ = open_unnamed(folder);
  if (file_) return hold(file_.get());
  create_named();
}

void AtomicFile::create_named() {
  const std::string folder = folder_of(path_);
  do {
    // The name is in the removal list before the file exists, so a signal at any time removes the file.
    temporary_ = folder + "/" + temporary_name(file_name_of(path_));
    removal_.set(temporary_);
    file_.reset(open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_ && errno == EEXIST) continue;
    if (!file_) {
      const int error = errno;
      removal_.clear();
      temporary_.clear();
      refuse_write(shown_, error);
    }
    hold(file_.get());
  } while (!file_ || !has_a_name(file_.get()));  // repeats if another process removed it as stale before it was locked
}

// Sets temporary_ before linking the file, so that the destructor removes the file after any exception.
void AtomicFile::name_temporary() {
  const std::string folder = folder_of(path_);
  for (;;) {
    temporary_ = folder + "/" + temporary_name(file_name_of(path_));
    removal_.set(temporary_);
    if (link_unnamed(file_.get(), temporary_)) return;
    const int error = errno;
    removal_.clear();
    temporary_.clear();
    errno = error;
    check(errno == EEXIST, "naming the temporary file");
  }
}

AtomicFile::~AtomicFile() {
  file_.reset();
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

const std::string& AtomicFile::temporary() {
  if (!is_device_ && temporary_.empty()) name_temporary();
  return temporary_;
}

void AtomicFile::check(bool fine, const char* step) const {
  if (!fine) fail(ErrorCode::runtime, "{}: {} failed: {}", shown_, step, std::strerror(errno));
}

void AtomicFile::write(std::string_view contents) {
  if (is_device_ && !file_) {
    file_.reset(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    check(static_cast<bool>(file_), "opening");
  }
  errno = write_all(file_.get(), contents);
  check(errno == 0, "writing");
}

void AtomicFile::commit() {
  if (is_device_) return;
  check(fsync(file_.get()) == 0, "syncing");
  if (!temporary_.empty() || !link_unnamed(file_.get(), path_)) {
    if (temporary_.empty()) check(errno == EEXIST, "linking");
    check(rename(temporary().c_str(), path_.c_str()) == 0, "renaming");
    temporary_.clear();
    removal_.clear();
  }
  file_.reset();
  errno = sync_folder(folder_of(path_));
  check(errno == 0, "the file is in place, but syncing its folder");
}

void AtomicFile::check_room(std::uint64_t bytes) const {
  struct statvfs disk {};
  if (is_device_ || fstatvfs(file_.get(), &disk) != 0 || disk.f_blocks == 0) return;  // free space unknown
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free >= bytes) return;
  fail(ErrorCode::runtime, "{}: needs {} bytes, but the file system has only {} free", shown_, bytes, free);
}

}  // namespace strobe
