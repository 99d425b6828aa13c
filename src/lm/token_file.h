// The file that a model learns from, mapped: text, each byte a token, or tokens, little-endian uint16 without a header,
// as GPT-2's are kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/mapped_file.h"

namespace strobe::lm {

enum class DataFormat { text, tokens };

inline constexpr std::int64_t kBytes = 256;  // the vocabulary of text

const char* name_of(DataFormat format);

// What `word` says: text or tokens; auto: tokens where the path ends in .bin or .tokens, else text. Contents are never
// looked at.
DataFormat data_format(std::string_view word, std::string_view path);

class TokenFile {
 public:
  // `flag`, such as --data, stands before the path in errors. Throws Error(invalid_argument) for what cannot be read or
  // is half a token too long.
  TokenFile(const std::string& path, DataFormat format, std::string_view flag);

  DataFormat format() const { return format_; }
  std::int64_t count() const { return count_; }  // tokens

  // Reads every token. Throws Error(invalid_argument) for the first that is not below it, with its place.
  void check_vocabulary(std::int64_t vocabulary) const;

  // Windows of context tokens, each with the token after it: one begins at every token, so that no place in the text is
  // always the first of its window. Throws Error(invalid_argument) where there is not one.
  std::int64_t windows(std::int64_t context) const;

  // tokens [context]: those of the window; targets [context]: each one's successor.
  void read_window(std::int64_t window, std::int64_t context, std::int32_t* tokens, std::int32_t* targets) const;

  std::uint32_t checksum() const;  // of the file's bytes

 private:
  std::int32_t at(std::int64_t index) const;

  std::string shown_;
  DataFormat format_;
  MappedFile file_;
  std::int64_t count_ = 0;
};

}  // namespace strobe::lm
