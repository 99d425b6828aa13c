// Plain writes, each synced: a row is worth seconds of measuring.
#include "cli/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/row_documents.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/write_all.h"

namespace strobe::cli {

RowFile::RowFile(std::string path, std::string title, Begin begin)
    : path_(std::move(path)), title_(std::move(title)), begin_(begin) {
  const AtomicFile trial(path_, "--output");
}

RowFile::~RowFile() {
  if (descriptor_ >= 0) close(descriptor_);
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
  if (descriptor_ < 0) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    check(descriptor_ >= 0);
    if (begin_ == Begin::anew) {
      remove_documents(path_, title_);
      check(ftruncate(descriptor_, 0) == 0 || errno == EINVAL);  // of what is no plain file
    }
  }
  errno = write_all(descriptor_, lines);
  check(errno == 0);
  check(fsync(descriptor_) == 0 || errno == EINVAL);
}

std::string ended_with_rows(const std::string& file) {
  return fmt::format("ended by a signal; rows measured so far are in {}", file);
}

}  // namespace strobe::cli
