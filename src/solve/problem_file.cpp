// Implements ProblemFile with mmap, madvise and pread, and AnswerFile.
#include "solve/problem_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::solve {
namespace {

static_assert(std::endian::native == std::endian::little, "mapped files are used without byte swapping");

std::string shown(const std::string& path) { return "input " + printable_value(path); }

// Sets `bytes` to the size of a problem file. Returns false if it does not fit in 64 bits.
bool file_bytes(const ProblemSize& size, std::int64_t& bytes) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(size.batch, size.rows, &product) &&
         !__builtin_mul_overflow(product, size.dim, &product) && !__builtin_mul_overflow(product, 12, &product) &&
         !__builtin_add_overflow(product, static_cast<std::int64_t>(kHeaderBytes), &bytes);
}

void check_size(const std::string& path, const ProblemSize& size, std::int64_t found) {
  const std::string header = fmt::format("(B, N, d) = ({}, {}, {})", size.batch, size.rows, size.dim);
  if (size.batch < 1 || size.rows < 1 || size.dim < 1) {
    fail(ErrorCode::invalid_argument, "{}: its header says {}; each must be at least 1", shown(path), header);
  }
  std::int64_t needed = 0;
  if (!file_bytes(size, needed)) {
    fail(ErrorCode::invalid_argument, "{}: its header says {}, more than any file holds; the file has {} bytes",
         shown(path), header, found);
  }
  if (found == needed) return;
  fail(ErrorCode::invalid_argument, "{}: its header says {}, which is 12 + 12 B N d = {} bytes; the file has {}, {} {}",
       shown(path), header, needed, found, found < needed ? needed - found : found - needed,
       found < needed ? "too few" : "too many");
}

// Reads `bytes` bytes at `offset`, or fewer at the end of the file. Returns the number of bytes read, or -1 with errno
// set.
ssize_t read_at(int descriptor, char* to, std::size_t bytes, off_t offset) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t now = pread(descriptor, to + got, bytes - got, offset + static_cast<off_t>(got));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return -1;
    if (now == 0) break;
    got += static_cast<std::size_t>(now);
  }
  return static_cast<ssize_t>(got);
}

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Returns address and length of [begin, end), extended down to a page boundary.
std::pair<char*, std::size_t> pages(const void* begin, const void* end) {
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) / page_bytes() * page_bytes();
  return {reinterpret_cast<char*>(first), reinterpret_cast<std::uintptr_t>(end) - first};
}

}  // namespace

ProblemFile::ProblemFile(const std::string& path) : path_(path), file_(path, shown(path)) {
  std::int32_t header[3];
  static_assert(sizeof(header) == kHeaderBytes);
  if (file_.bytes() < sizeof(header)) {
    fail(ErrorCode::invalid_argument, "{}: has {} bytes, too few for its header of 12 (int32 B, N, d)", shown(path_),
         file_.bytes());
  }
  std::memcpy(header, file_.data(), sizeof(header));
  size_ = {header[0], header[1], header[2]};
  check_size(path_, size_, static_cast<std::int64_t>(file_.bytes()));
  floats_ = reinterpret_cast<const float*>(static_cast<const char*>(file_.data()) + kHeaderBytes);
}

void ProblemFile::load(std::int64_t begin, std::int64_t end) const {
  const auto [first, bytes] = pages(q(begin), q(end));
#ifdef MADV_POPULATE_READ
  if (madvise(first, bytes, MADV_POPULATE_READ) == 0) return;
  if (errno != EINVAL) {  // EINVAL: the Linux kernel is too old
    fail(ErrorCode::runtime, "input {}: cannot be read any more: {}", printable_value(path_),
         errno == EFAULT ? "the file was truncated, or its disk failed" : std::strerror(errno));
  }
#endif
  // For older Linux kernels: requests readahead of the whole range, then touches each page.
  madvise(first, bytes, MADV_WILLNEED);
  for (std::size_t at = 0; at < bytes; at += page_bytes()) static_cast<void>(static_cast<volatile char*>(first)[at]);
}

void ProblemFile::unload(std::int64_t begin, std::int64_t end) const {
  const auto [first, bytes] = pages(q(begin), q(end));
  madvise(first, bytes, MADV_DONTNEED);  // pages shared with other batches are read again when needed
}

void ProblemFile::read(std::int64_t batch, std::int64_t offset, std::int64_t count, float* to) const {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  const auto file_offset = reinterpret_cast<const char*>(q(batch) + offset) - static_cast<const char*>(file_.data());
  const ssize_t got = read_at(file_.descriptor(), reinterpret_cast<char*>(to), bytes, file_offset);
  if (got < 0) fail(ErrorCode::runtime, "{}: reading failed: {}", shown(path_), std::strerror(errno));
  if (static_cast<std::size_t>(got) != bytes) {
    fail(ErrorCode::runtime, "{}: was truncated below its {} bytes while it was read", shown(path_), file_.bytes());
  }
}

AnswerFile::AnswerFile(std::string path, const ProblemSize& size) : file_(std::move(path)), left_(size.total()) {
  file_.check_room(static_cast<std::uint64_t>(left_) * sizeof(float));
}

void AnswerFile::write(const float* values, std::int64_t count) {
  if (count > left_) fail(ErrorCode::runtime, "answer: {} values more than the problem requires", count - left_);
  file_.write({reinterpret_cast<const char*>(values), static_cast<std::size_t>(count) * sizeof(float)});
  left_ -= count;
}

void AnswerFile::commit() {
  if (left_ != 0) fail(ErrorCode::runtime, "answer: {} values were not written", left_);
  file_.commit();
}

}  // namespace strobe::solve
