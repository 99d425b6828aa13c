// Maps a file with open, fstat and mmap.
#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/fail.h"
#include "core/regular_file.h"

namespace strobe {
namespace {

Descriptor open_for_reading(const std::string& path, const std::string& shown) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", shown, std::strerror(errno));
  return file;
}

}  // namespace

MappedFile::MappedFile(const std::string& path, const std::string& shown)
    : MappedFile(open_for_reading(path, shown), shown) {}

MappedFile::MappedFile(Descriptor file, const std::string& shown) : file_(std::move(file)) {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) {
    fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", shown, std::strerror(errno));
  }
  check_regular(status.st_mode, shown);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0) return;
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) {
    fail(ErrorCode::out_of_memory, "{}: cannot map {} bytes: {}", shown, bytes, std::strerror(errno));
  }
  data_ = mapped;
  bytes_ = bytes;
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace strobe
