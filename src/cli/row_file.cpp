// Plain writes, each synced: a row is worth seconds of measuring.
#include "cli/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/fail.h"

namespace strobe::cli {

RowFile::RowFile(std::string path, std::string_view asked_by) : path_(std::move(path)) {
  was_there_ = access(path_.c_str(), F_OK) == 0;
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    fail(ErrorCode::invalid_argument, "{} {}: cannot be written: {}", asked_by, path_, std::strerror(errno));
}

RowFile::~RowFile() {
  close(descriptor_);
  if (!was_there_ && !has_rows_) unlink(path_.c_str());
}

void RowFile::add(std::string_view row) {
  const auto check = [&](bool fine) {
    if (!fine) fail(ErrorCode::runtime, "{}: cannot be written: {}", path_, std::strerror(errno));
  };
  if (!has_rows_) check(ftruncate(descriptor_, 0) == 0 || errno == EINVAL);  // EINVAL: not a plain file
  has_rows_ = true;
  const std::string line = std::string(row) + "\n";
  for (std::string_view left = line; !left.empty();) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    check(written > 0);
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  check(fsync(descriptor_) == 0 || errno == EINVAL);
}

}  // namespace strobe::cli
