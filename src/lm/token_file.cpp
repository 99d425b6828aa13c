#include "lm/token_file.h"

#include <bit>
#include <cstring>

#include "core/crc32.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

constexpr std::size_t kTokenBytes = 2;

}  // namespace

const char* name_of(DataFormat format) { return format == DataFormat::text ? "text" : "tokens"; }

DataFormat data_format(std::string_view word, std::string_view path) {
  if (word == "text") return DataFormat::text;
  if (word == "tokens") return DataFormat::tokens;
  return path.ends_with(".bin") || path.ends_with(".tokens") ? DataFormat::tokens : DataFormat::text;
}

TokenFile::TokenFile(const std::string& path, DataFormat format, std::string_view flag)
    : shown_(fmt::format("{} {}", flag, printable_value(path))), format_(format), file_(path, shown_) {
  if (format == DataFormat::tokens && file_.bytes() % kTokenBytes != 0) {
    fail(ErrorCode::invalid_argument, "{}: its {} bytes are not whole tokens of 2; --data-format text reads bytes",
         shown_, file_.bytes());
  }
  count_ = static_cast<std::int64_t>(format == DataFormat::text ? file_.bytes() : file_.bytes() / kTokenBytes);
}

std::int32_t TokenFile::at(std::int64_t index) const {
  const char* const data = static_cast<const char*>(file_.data());
  if (format_ == DataFormat::text) return static_cast<unsigned char>(data[index]);
  std::uint16_t token = 0;
  std::memcpy(&token, data + kTokenBytes * static_cast<std::size_t>(index), kTokenBytes);
  return token;
}

void TokenFile::check_vocabulary(std::int64_t vocabulary) const {
  for (std::int64_t i = 0; i < count_; ++i) {
    if (at(i) < vocabulary) continue;
    fail(ErrorCode::invalid_argument, "{}: its token {} is {}; valid: 0 to {} (--vocabulary {})", shown_, i, at(i),
         vocabulary - 1, vocabulary);
  }
}

std::int64_t TokenFile::windows(std::int64_t context) const {
  if (count_ > context) return count_ - context;
  fail(ErrorCode::invalid_argument, "{}: has {} tokens; a context of {} needs at least {}", shown_, count_, context,
       context + 1);
}

void TokenFile::read_window(std::int64_t window, std::int64_t context, std::int32_t* tokens,
                            std::int32_t* targets) const {
  for (std::int64_t t = 0; t < context; ++t) {
    tokens[t] = at(window + t);
    targets[t] = at(window + t + 1);
  }
}

std::uint32_t TokenFile::checksum() const { return crc32(file_.text()); }

}  // namespace strobe::lm
