// POSIX: an advisory lock, positioned writes, fdatasync.
#include "bench/sweep/result_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "core/atomic_file.h"
#include "core/fail.h"

namespace strobe::bench {
namespace {

// After a sweep was killed, a child that it was just starting holds the lock for some milliseconds more.
constexpr int kLockTries = 20;
constexpr auto kLockPause = std::chrono::milliseconds(50);

std::string shown(const std::string& path) { return "--output " + (path.empty() ? "\"\"" : path); }

[[noreturn]] void refuse(const std::string& path, int error) {
  fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown(path), std::strerror(error));
}

void check_kind(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  fail(ErrorCode::invalid_argument, "{}: {}; a plain file is needed, so that a sweep can go on where it stopped",
       shown(path), S_ISDIR(status.st_mode) ? "is a folder" : "is not a plain file");
}

[[noreturn]] void refuse_busy(const std::string& path) {
  fail(ErrorCode::invalid_argument, "{}: another sweep writes to it; each needs a file of its own", shown(path));
}

void lock_file(int descriptor, const std::string& path) {
  for (int tries = 1; flock(descriptor, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) refuse(path, errno);
    if (tries == kLockTries) refuse_busy(path);
    std::this_thread::sleep_for(kLockPause);
  }
}

// So that a new file's name is on disk as its first row is.
void sync_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

std::int64_t read_rows(const std::string& path, const AcceptRow& accept) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return 0;
    refuse(path, errno);
  }
  check_kind(path, status);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::invalid_argument, "{}: cannot be read", shown(path));
  std::int64_t whole = 0;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // no end of line: torn
    ++number;
    Json row;
    try {
      row = Json::parse(line);
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "{}: line {} is not a row of a sweep: {}", shown(path), number, error.what());
    }
    accept(row, number);
    whole += static_cast<std::int64_t>(line.size()) + 1;
  }
  return whole;
}

void ResultFile::open_locked() {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse(path_, errno);
  lock_file(descriptor_, path_);
  struct stat opened {
  }, named{};
  if (fstat(descriptor_, &opened) != 0 || stat(path_.c_str(), &named) != 0) refuse(path_, errno);
  if (opened.st_ino != named.st_ino) refuse_busy(path_);  // put aside by drop() of another sweep
}

ResultFile::ResultFile(std::string path, const AcceptRow& accept) : path_(std::move(path)) {
  if (path_.empty()) fail(ErrorCode::invalid_argument, "{}: a file name is needed", shown(path_));
  struct stat status {};
  if (stat(path_.c_str(), &status) == 0) check_kind(path_, status);
  try {
    open_locked();
    if (fstat(descriptor_, &status) != 0) refuse(path_, errno);
    size_ = read_rows(path_, accept);
    torn_ = status.st_size - size_;
    if (torn_ > 0 && (ftruncate(descriptor_, size_) != 0 || fsync(descriptor_) != 0)) refuse(path_, errno);
    if (size_ == 0) sync_folder(path_);
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    throw;
  }
}

ResultFile::~ResultFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ResultFile::drop(const std::function<bool(const Json& row)>& is_dropped) {
  std::ifstream file(path_, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    if (!is_dropped(Json::parse(line))) kept += line + "\n";
  }
  if (file.bad()) fail(ErrorCode::runtime, "{}: cannot be read", shown(path_));
  AtomicFile(path_, "--output").commit(kept);
  close(std::exchange(descriptor_, -1));  // of the file that was replaced
  open_locked();
  size_ = static_cast<std::int64_t>(kept.size());
}

void ResultFile::append(const Json& row) {
  const std::string line = row.dump() + "\n";
  const auto give_up = [&](const char* step) {
    const int error = errno;
    const bool cut = ftruncate(descriptor_, size_) == 0;
    fail(ErrorCode::runtime, "{}: {} failed: {}{}", shown(path_), step, std::strerror(error),
         cut ? "" : "; its last line is not whole");
  };
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written = pwrite(descriptor_, line.data() + done, line.size() - done,
                                   static_cast<off_t>(size_) + static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) give_up("writing");
    done += static_cast<std::size_t>(written);
  }
  if (fdatasync(descriptor_) != 0) give_up("syncing");
  size_ += static_cast<std::int64_t>(line.size());
}

}  // namespace strobe::bench
