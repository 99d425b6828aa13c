// Plain writes, each synced: a row is worth seconds of measuring.
#include "cli/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/write_all.h"

namespace strobe::cli {

RowFile::RowFile(std::string path, const std::string& asked_by, Begin begin) : path_(std::move(path)), begin_(begin) {
  const AtomicFile trial(path_, asked_by);
}

RowFile::~RowFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void RowFile::add(std::string_view row) {
  const auto check = [&](bool fine) {
    if (!fine) fail(ErrorCode::runtime, "{}: cannot be written: {}", path_, std::strerror(errno));
  };
  if (descriptor_ < 0) {
    const int begin = begin_ == Begin::at_the_end ? O_APPEND : O_TRUNC;
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | begin, 0666);
    check(descriptor_ >= 0);
  }
  errno = write_all(descriptor_, std::string(row) + "\n");
  check(errno == 0);
  check(fsync(descriptor_) == 0 || errno == EINVAL);
}

}  // namespace strobe::cli
