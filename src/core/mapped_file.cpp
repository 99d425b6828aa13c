// POSIX: open, fstat, mmap.
#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/fail.h"

namespace strobe {

MappedFile::MappedFile(const std::string& path, const std::string& shown) {
  const auto refuse = [&](int error) {
    fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", shown, std::strerror(error));
  };
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(errno);
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) refuse(errno);
    if (!S_ISREG(status.st_mode)) {
      fail(ErrorCode::invalid_argument, "{}: is {}; a plain file is needed", shown,
           S_ISDIR(status.st_mode) ? "a folder" : "no plain file");
    }
    bytes_ = static_cast<std::size_t>(status.st_size);
    if (bytes_ == 0) return;
    void* const mapped = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED) {
      fail(ErrorCode::out_of_memory, "{}: its {} bytes cannot be mapped: {}", shown, bytes_, std::strerror(errno));
    }
    data_ = mapped;
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, bytes_);
  close(descriptor_);
}

}  // namespace strobe
