// Reads both files side by side, a piece at a time.
#include "solve/compare_answers.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::solve {
namespace {

constexpr std::size_t kPiece = 1 << 20;  // floats

class FloatFile {
 public:
  explicit FloatFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      fail(ErrorCode::invalid_argument, "{}: {}", printable_value(path), error ? error.message() : "is no plain file");
    }
    if (!file_)
      fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", printable_value(path), std::strerror(errno));
    bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(path));
  }

  std::int64_t bytes() const { return bytes_; }

  void read(std::vector<float>& values) {
    const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
    if (!file_.read(reinterpret_cast<char*>(values.data()), bytes)) {
      fail(ErrorCode::runtime, "{}: reading failed", printable_value(path_));
    }
  }

 private:
  std::string path_;
  std::ifstream file_;
  std::int64_t bytes_ = 0;
};

double error_of(float found, float expected) {
  if (found == expected) return 0;
  const double off = std::abs(static_cast<double>(found) - static_cast<double>(expected));
  return std::isfinite(off) ? off : std::numeric_limits<double>::infinity();
}

}  // namespace

Comparison compare_answers(const std::string& output, const std::string& answer, double tolerance) {
  FloatFile found(output), expected(answer);
  if (expected.bytes() % 4 != 0) {
    fail(ErrorCode::invalid_argument, "{}: has {} bytes; an answer is a whole number of float32",
         printable_value(answer), expected.bytes());
  }
  Comparison result{.output_bytes = found.bytes(), .answer_bytes = expected.bytes()};
  if (!result.same_size()) return result;
  for (std::int64_t begin = 0; begin < result.count();) {
    const auto now = static_cast<std::size_t>(std::min<std::int64_t>(kPiece, result.count() - begin));
    std::vector<float> a(now), b(now);
    found.read(a);
    expected.read(b);
    for (std::size_t i = 0; i < now; ++i) {
      const double off = error_of(a[i], b[i]);
      result.largest = std::max(result.largest, off);
      if (off <= tolerance) continue;
      ++result.mismatches;
      if (result.first.size() < Comparison::kShown) {
        result.first.push_back({begin + static_cast<std::int64_t>(i), a[i], b[i]});
      }
    }
    begin += static_cast<std::int64_t>(now);
  }
  return result;
}

}  // namespace strobe::solve
