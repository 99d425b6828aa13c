// Compares outputs and answers in chunks of kChunk floats.
#include "solve/compare_answers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::solve {
namespace {

constexpr std::size_t kChunk = 1 << 20;  // floats

// A file of floats, opened by path or given as an open descriptor.
class FloatFile {
 public:
  explicit FloatFile(const std::string& path)
      : shown_(printable_value(path)), owned_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (owned_ < 0) fail(ErrorCode::invalid_argument, "{}: {}", shown_, std::strerror(errno));
    struct stat status {};
    if (fstat(owned_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(owned_);
      fail(ErrorCode::invalid_argument, "{}: is not a regular file", shown_);
    }
    descriptor_ = owned_;
    bytes_ = status.st_size;
  }
  explicit FloatFile(int descriptor) : shown_("the output"), descriptor_(descriptor) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) fail(ErrorCode::runtime, "{}: {}", shown_, std::strerror(errno));
    bytes_ = status.st_size;
  }
  ~FloatFile() {
    if (owned_ >= 0) close(owned_);
  }
  FloatFile(const FloatFile&) = delete;
  FloatFile& operator=(const FloatFile&) = delete;

  std::int64_t bytes() const { return bytes_; }

  // Reads the next values.
  void read(std::span<float> values) const {
    char* to = reinterpret_cast<char*>(values.data());
    for (std::size_t left = values.size_bytes(); left > 0;) {
      const ssize_t got = ::read(descriptor_, to, left);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        fail(ErrorCode::runtime, "{}: reading failed: {}", shown_, got < 0 ? std::strerror(errno) : "it was truncated");
      }
      to += got;
      left -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string shown_;
  int owned_ = -1, descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

void check_answer(const std::string& path, const FloatFile& file) {
  if (file.bytes() % 4 == 0) return;
  fail(ErrorCode::invalid_argument, "{}: has {} bytes; the size of an answer must be a multiple of 4 bytes",
       printable_value(path), file.bytes());
}

double error_of(float found, float expected) {
  if (found == expected) return 0;
  const double off = std::abs(static_cast<double>(found) - static_cast<double>(expected));
  return std::isfinite(off) ? off : std::numeric_limits<double>::infinity();
}

using Read = std::function<void(std::span<float>)>;  // reads the next values

Comparison compare(std::int64_t output_bytes, const Read& output, std::int64_t answer_bytes, const Read& answer,
                   double tolerance) {
  Comparison result{.output_bytes = output_bytes, .answer_bytes = answer_bytes};
  if (!result.same_size()) return result;
  for (std::int64_t begin = 0; begin < result.count();) {
    const auto now = static_cast<std::size_t>(std::min<std::int64_t>(kChunk, result.count() - begin));
    std::vector<float> found(now), expected(now);
    output(found);
    answer(expected);
    for (std::size_t i = 0; i < now; ++i) {
      const double off = error_of(found[i], expected[i]);
      result.largest = std::max(result.largest, off);
      if (off <= tolerance) continue;
      ++result.mismatches;
      if (result.first.size() < Comparison::kShown) {
        result.first.push_back({begin + static_cast<std::int64_t>(i), found[i], expected[i]});
      }
    }
    begin += static_cast<std::int64_t>(now);
  }
  return result;
}

}  // namespace

Comparison compare_answers(const std::string& output, const std::string& answer, double tolerance) {
  const FloatFile found(output), expected(answer);
  check_answer(answer, expected);
  return compare(
      found.bytes(), [&](std::span<float> values) { found.read(values); }, expected.bytes(),
      [&](std::span<float> values) { expected.read(values); }, tolerance);
}

std::vector<float> read_answer(const std::string& answer) {
  const FloatFile file(answer);
  check_answer(answer, file);
  std::vector<float> values(static_cast<std::size_t>(file.bytes() / 4));
  file.read(values);
  return values;
}

Comparison compare_with_answer(int output, std::span<const float> answer, double tolerance) {
  const FloatFile found(output);
  std::size_t copied = 0;
  const Read next = [&](std::span<float> values) {
    std::copy_n(answer.begin() + static_cast<std::ptrdiff_t>(copied), values.size(), values.begin());
    copied += values.size();
  };
  return compare(
      found.bytes(), [&](std::span<float> values) { found.read(values); },
      static_cast<std::int64_t>(answer.size_bytes()), next, tolerance);
}

}  // namespace strobe::solve
