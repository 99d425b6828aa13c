// Training or validation data, memory-mapped: text, where each byte is a token, or tokens as little-endian uint16 or
// uint32 words without a header; and the order in which training reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/mapped_file.h"

namespace strobe::lm {

enum class DataFormat { text, tokens, tokens32 };

inline constexpr std::int64_t kBytes = 256;  // vocabulary of text

const char* name_of(DataFormat format);

// Format named by `word`: text, tokens (uint16) or tokens32 (uint32). auto: tokens if the path ends in .bin or .tokens,
// text otherwise.
DataFormat data_format(std::string_view word, std::string_view path);

class TokenFile {
 public:
  // Maps without reading. `flag`, such as --data, precedes the path in errors. Throws Error(invalid_argument) if the
  // file cannot be opened or ends within a token.
  TokenFile(const std::string& path, DataFormat format, std::string_view flag);

  DataFormat format() const { return format_; }
  std::int64_t count() const { return count_; }  // tokens

  // Throws Error(invalid_argument) if the file does not fit a vocabulary: at its first token beyond it, with position
  // and value, or if its words have another width than the format.
  void check_vocabulary(std::int64_t vocabulary) const;

  // Windows of `context` tokens and their successors. One begins at every token. Throws Error(invalid_argument) if the
  // file is too short for one.
  std::int64_t windows(std::int64_t context) const;

  // tokens [length]: those from `first` on; targets [length]: the successor of each.
  void read_window(std::int64_t first, std::int64_t length, std::int32_t* tokens, std::int32_t* targets) const;

  std::uint32_t checksum() const { return scan().checksum; }  // CRC-32 of the file

 private:
  // Result of the one pass over the whole file, made when it is first needed.
  struct Scan {
    std::uint32_t checksum = 0;
    // Only set for tokens, not for text:
    std::uint32_t largest = 0;                        // token
    std::uint32_t largest_even = 0, largest_odd = 0;  // uint16 word, by the parity of its index
  };
  const Scan& scan() const;
  Scan scan_chunk(std::size_t first_byte, std::size_t bytes) const;
  void check_width(std::int64_t vocabulary) const;
  std::uint32_t at(std::int64_t index) const;

  std::string shown_;
  DataFormat format_;
  MappedFile file_;
  std::int64_t count_ = 0;
  mutable std::optional<Scan> scan_;
};

// The order in which training reads the windows of its data: each epoch is a permutation of them, by seed and epoch.
// at() computes any position, so a checkpoint keeps one number.
class WindowOrder {
 public:
  WindowOrder(std::uint64_t seed, std::int64_t windows);  // windows: at least 1

  // The window at a position; positions count from 0 through all epochs.
  std::int64_t at(std::int64_t position) const;

 private:
  std::uint64_t seed_;
  std::uint64_t windows_;
  int half_bits_;  // of a number below windows, rounded up to two equal halves
};

}  // namespace strobe::lm
