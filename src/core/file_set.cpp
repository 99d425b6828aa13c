// Implements FileSet with mkdtemp, flock, fsync, link and rename.
#include "core/file_set.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/file_names.h"
#include "core/sync_folder.h"
#include "core/write_all.h"
#include "core/write_target.h"

namespace strobe {
namespace {

constexpr std::string_view kStaging = ".strobe-tmp-";
constexpr std::size_t kStagingLetters = 6;  // random letters of mkdtemp

bool is_staging_name(std::string_view name) {
  return name.starts_with(kStaging) && name.size() == kStaging.size() + kStagingLetters;
}

// Staging folders contain only regular files with decimal names.
bool is_staged_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void write_synced(const std::string& path, std::string_view contents, std::optional<mode_t> mode,
                  const std::string& shown) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  int error = descriptor < 0 ? errno : write_all(descriptor, contents);
  if (descriptor >= 0 && error == 0 && mode && fchmod(descriptor, *mode) != 0) error = errno;
  if (descriptor >= 0 && error == 0 && fsync(descriptor) != 0) error = errno;
  if (descriptor >= 0 && close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) fail(ErrorCode::runtime, "{}: writing failed: {}", shown, std::strerror(error));
}

enum class Lock { taken, busy, gone, unsupported };

// Opens a staging folder and locks it. The descriptor is closed if the folder is busy or gone.
Lock lock_folder(const std::string& path, int& descriptor) {
  descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return Lock::gone;
  Lock lock = Lock::taken;
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) lock = errno == EWOULDBLOCK ? Lock::busy : Lock::unsupported;
  struct stat opened {
  }, named{};
  const bool same = fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
                    opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  if (!same) lock = Lock::gone;
  if (lock == Lock::busy || lock == Lock::gone) close(std::exchange(descriptor, -1));
  return lock;
}

}  // namespace

void remove_stale_staging(const std::string& folder) {
  std::error_code error;
  for (const std::string& name : file_names(folder, error)) {
    if (!is_staging_name(name)) continue;
    const std::string path = folder + "/" + name;
    int descriptor = -1;
    const Lock lock = lock_folder(path, descriptor);
    if (lock == Lock::unsupported) close(descriptor);
    if (lock != Lock::taken) continue;
    for (const std::string& file : file_names(path, error)) {
      if (is_staged_name(file)) unlink((path + "/" + file).c_str());
    }
    rmdir(path.c_str());  // fails if another process has put a file into the folder
    close(descriptor);
  }
}

FileSet::~FileSet() { remove_staged(); }

void FileSet::remove_staged() noexcept {
  for (const Staged& file : staged_) {
    unlink(file.temporary.c_str());
    if (!file.backup.empty()) unlink(file.backup.c_str());
  }
  staged_.clear();
  for (auto& [name, folder] : folders_) {
    rmdir(folder.path.c_str());
    close(folder.descriptor);
  }
  folders_.clear();
}

FileSet::Folder& FileSet::staging_in(const std::string& folder, const std::string& shown) {
  if (const auto found = folders_.find(folder); found != folders_.end()) return found->second;
  remove_stale_staging(folder);
  Folder made;
  while (made.descriptor < 0) {  // repeats if another process removed the folder before it was locked
    made.path = folder + "/" + std::string(kStaging) + std::string(kStagingLetters, 'X');
    if (!mkdtemp(made.path.data())) {
      refuse_write(shown, errno);
    }
    if (lock_folder(made.path, made.descriptor) == Lock::gone && errno != ENOENT) {
      const int error = errno;
      rmdir(made.path.c_str());
      fail(ErrorCode::runtime, "{}: opening its temporary folder failed: {}", shown, std::strerror(error));
    }
  }
  return folders_.emplace(folder, std::move(made)).first->second;
}

void FileSet::add(const std::string& path, std::string_view contents) {
  const std::string shown = asked_by_ + " " + (path.empty() ? "\"\"" : path);
  const WriteTarget target = find_write_target(path, shown);
  if (target.is_device) {
    devices_.push_back({path, std::string(contents)});
    return;
  }
  const Folder& folder = staging_in(folder_of(target.path), shown);
  std::string temporary = folder.path + "/" + std::to_string(staged_.size());
  staged_.push_back({.temporary = temporary, .target = target.path, .shown = shown});
  write_synced(temporary, contents, target.mode, shown);
}

// Hard-links the file to be replaced into the staging folder.
void FileSet::keep_old_file(Staged& file, std::size_t number) {
  std::string backup = folder_of(file.temporary) + "/" + std::to_string(number);
  if (link(file.target.c_str(), backup.c_str()) == 0) {
    file.backup = std::move(backup);
    return;
  }
  file.is_new = errno == ENOENT;
  const bool has_no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK;
  if (file.is_new || has_no_links) return;
  fail(ErrorCode::runtime, "{}: making a hard link to the old file failed: {}", file.shown, std::strerror(errno));
}

// Restores the old files of the first `renamed` targets. Returns the number of files that could not be restored.
std::size_t FileSet::undo(std::size_t renamed) noexcept {
  std::size_t lost = 0;
  while (renamed-- > 0) {
    const Staged& file = staged_[renamed];
    const bool restored = file.is_new ? unlink(file.target.c_str()) == 0
                                      : !file.backup.empty() && rename(file.backup.c_str(), file.target.c_str()) == 0;
    lost += !restored;
  }
  return lost;
}

void FileSet::commit() {
  for (std::size_t i = 0; i < staged_.size(); ++i) keep_old_file(staged_[i], staged_.size() + i);
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    const Staged& file = staged_[i];
    if (rename(file.temporary.c_str(), file.target.c_str()) == 0) continue;
    const int error = errno;
    const std::size_t lost = undo(i);
    fail(
        ErrorCode::runtime, "{}: renaming failed: {}{}", file.shown, std::strerror(error),
        lost == 0 ? "" : fmt::format("; {} of {} files were replaced and could not be restored", lost, staged_.size()));
  }
  std::vector<std::string> targets;
  for (const auto& [name, folder] : folders_) targets.push_back(name);
  remove_staged();
  for (const std::string& folder : targets) {
    if (const int error = sync_folder(folder); error != 0) {
      fail(ErrorCode::runtime, "{} {}: syncing its folder failed: {}", asked_by_, folder, std::strerror(error));
    }
  }
  for (const Device& device : devices_) AtomicFile(device.path, asked_by_).commit(device.contents);
  devices_.clear();
}

}  // namespace strobe
