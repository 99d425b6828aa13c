#include "lm/step_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

// Bytes of the whole rows of steps up to `last`.
off_t bytes_up_to(const std::string& path, std::int64_t last) {
  std::ifstream file(path, std::ios::binary);
  off_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    try {
      if (Json::parse(line).at("step").as_integer() > last) break;
    } catch (const Error&) {
      break;
    }
    bytes += static_cast<off_t>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

StepLog::StepLog(const std::string& path, std::int64_t last) : path_(path) {
  const off_t kept = bytes_up_to(path, last);
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0 || ftruncate(descriptor_, kept) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", printable_value(path), std::strerror(error));
  }
}

StepLog::~StepLog() { close(descriptor_); }

void StepLog::append(const Json& row) {
  const std::string line = row.dump() + "\n";
  const ssize_t written = write(descriptor_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  fail(ErrorCode::runtime, "{}: cannot be written: {}", printable_value(path_),
       written < 0 ? std::strerror(errno) : "the disk is full");
}

void StepLog::sync() {
  if (fsync(descriptor_) == 0) return;
  fail(ErrorCode::runtime, "{}: syncing failed: {}", printable_value(path_), std::strerror(errno));
}

}  // namespace strobe::lm
