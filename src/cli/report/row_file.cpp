// Plain writes, each synced: a row takes seconds to measure.
#include "cli/report/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/report/row_documents.h"
#include "cli/report/written_files.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/regular_file.h"
#include "core/write_all.h"

namespace strobe::cli {
namespace {

// Throws Error(runtime): the constructor has checked the path, so the path has changed since.
Descriptor open_rows(const std::string& path) {
  try {
    return open_regular(path, O_WRONLY | O_APPEND | O_CREAT, path);
  } catch (const Error& error) {
    fail(ErrorCode::runtime, "{}", error.what());
  }
}

}  // namespace

RowFile::RowFile(std::string path, std::string title, Begin begin)
    : path_(std::move(path)), title_(std::move(title)), begin_(begin) {
  is_device_ = AtomicFile(path_, "--output").is_device();
  if (!is_device_) refuse_link(path_, "--output " + path_);
  check_replaced(path_, "{\"kind\":", "this command");
  check_documents(path_, title_);
}

void RowFile::add(std::string_view row) {
  write(waiting_ + std::string(row) + "\n");
  rows_ += std::exchange(waiting_rows_, 0) + 1;
  waiting_.clear();
}

void RowFile::add_refused(std::string_view row) {
  if (rows_ > 0) return add(row);
  waiting_ += std::string(row) + "\n";
  ++waiting_rows_;
}

void RowFile::write(std::string_view lines) {
  const auto check = [&](bool fine) {
    if (!fine) fail(ErrorCode::runtime, "{}: cannot be written: {}", path_, std::strerror(errno));
  };
  if (!file_) {
    file_ = is_device_ ? Descriptor(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)) : open_rows(path_);
    check(static_cast<bool>(file_));
    if (begin_ == Begin::anew) {
      remove_documents(path_, title_);
      check(ftruncate(file_.get(), 0) == 0 || errno == EINVAL);  // EINVAL: a device
    }
  }
  errno = write_all(file_.get(), lines);
  check(errno == 0);
  check(fsync(file_.get()) == 0 || errno == EINVAL);
}

std::string ended_with_rows(const std::string& file) {
  return fmt::format("ended by a signal; rows measured so far are in {}", file);
}

}  // namespace strobe::cli
