// Creates and removes the working folder of a judged program, and detects changes to the case files.
#include "cli/course/judge_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "app/signals.h"
#include "core/fail.h"
#include "core/mapped_file.h"
#include "core/printable.h"
#include "core/write_all.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{1} << 24;  // bytes

[[noreturn]] void refuse(const std::string& path, const char* step, int error) {
  fail(ErrorCode::runtime, "cases judge: {}: {} failed: {}; set TMPDIR to another folder", printable_value(path), step,
       std::strerror(error));
}

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISDIR(mode) ? "a folder" : "not a regular file";
}

std::string place_in_environment() {
  const char* const place = std::getenv("TMPDIR");
  return place ? place : "/tmp";
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

JudgeFolder::JudgeFolder(const std::string& problem) {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  if (error)
    fail(ErrorCode::invalid_argument, "TMPDIR {}: {}; valid: a folder", printable_value(place_in_environment()),
         error.message());
  std::string name = (fs::absolute(place) / "strobe-judge-XXXXXX").string();
  if (!mkdtemp(name.data())) refuse(name, "making a folder", errno);
  path_ = name;
  try {
    descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0) refuse(path_, "opening", errno);
    copy(problem);
  } catch (...) {
    remove();
    throw;
  }
}

JudgeFolder::~JudgeFolder() { remove(); }

// Restores permissions first: the program may have removed them from its folders.
void JudgeFolder::remove() const {
  if (descriptor_ >= 0) close(descriptor_);
  std::error_code ignored;
  fs::permissions(path_, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow, ignored);
  for (fs::recursive_directory_iterator entry(path_, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
      fs::permissions(entry->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    }
    if (ignored) break;
  }
  fs::remove_all(path_, ignored);
}

void JudgeFolder::copy(const std::string& problem) const {
  const MappedFile file(problem, printable_value(problem));
  const int copied = open(input().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
  if (copied < 0) refuse(input(), "opening", errno);
  int error = 0;
  for (std::size_t begin = 0; begin < file.bytes() && error == 0 && remembered_signal() == 0; begin += kChunk) {
    error = write_all(copied, file.text().substr(begin, kChunk));
  }
  // Syncs now, so that the write-back does not run while the program is timed.
  if (error == 0 && fdatasync(copied) != 0) error = errno;
  close(copied);
  if (error != 0) refuse(input(), "writing", error);
}

int JudgeFolder::open_output(std::string& reason) const {
  struct stat named {};
  if (fstatat(descriptor_, "output", &named, AT_SYMLINK_NOFOLLOW) != 0) {
    reason = errno == ENOENT ? "it wrote no output" : fmt::format("its output: {}", std::strerror(errno));
  } else if (!S_ISREG(named.st_mode)) {
    reason = fmt::format("its output is {}; valid: a regular file", kind_of(named.st_mode));
  } else if (named.st_nlink != 1) {
    reason = fmt::format("its output has {} hard links; valid: one", named.st_nlink);
  } else {
    const int opened = openat(descriptor_, "output", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (opened < 0) reason = fmt::format("its output cannot be read: {}", std::strerror(errno));
    return opened;
  }
  return -1;
}

CaseFilesWatch::Stamp CaseFilesWatch::stamp_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

CaseFilesWatch::CaseFilesWatch(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const Stamp stamp = stamp_of(path);
    files_.push_back({path, stamp, stamp});
  }
}

std::string CaseFilesWatch::newly_changed() {
  std::string first;
  for (Watched& file : files_) {
    const Stamp now = stamp_of(file.path);
    if (now != file.latest && first.empty()) first = file.path;
    file.latest = now;
  }
  return first;
}

bool CaseFilesWatch::is_original(const std::string& path) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&](const Watched& file) { return file.path == path && stamp_of(path) == file.first; });
}

}  // namespace strobe::cli
