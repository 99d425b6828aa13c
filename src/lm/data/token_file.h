// Maps files of training or validation data, and defines the order in which training reads them. A file has text, with
// one token per byte, or tokens as little-endian uint16 or uint32 words without a header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/mapped_file.h"

namespace strobe::lm {

enum class DataFormat { text, tokens, tokens32 };

inline constexpr std::int64_t kBytes = 256;  // vocabulary size of DataFormat::text

const char* name_of(DataFormat format);

// Returns the format that `word` names: text, tokens (uint16) or tokens32 (uint32). For any other word, such as auto,
// returns tokens if the path ends in .bin or .tokens, otherwise text.
DataFormat data_format(std::string_view word, std::string_view path);

class TokenFile {
 public:
  // Maps the file without reading it. `flag`, such as --data, precedes the path in errors. Throws
  // Error(invalid_argument) if the file cannot be opened or ends within a token.
  TokenFile(const std::string& path, DataFormat format, std::string_view flag);

  DataFormat format() const { return format_; }
  std::int64_t count() const { return count_; }  // tokens

  // Throws Error(invalid_argument) with the token's position and value if a token is not below `vocabulary`. Also
  // throws for DataFormat::tokens if uint16 is too narrow for the vocabulary, or if the tokens seem to be uint32.
  void check_vocabulary(std::int64_t vocabulary) const;

  // Returns the number of windows. A window is `context` tokens and the token after them, and may begin at any token.
  // Throws Error(invalid_argument) if the file is too short for one window.
  std::int64_t windows(std::int64_t context) const;

  // Copies `length` tokens from position `first` to `tokens`, and the successor of each to `targets`.
  void read_window(std::int64_t first, std::int64_t length, std::int32_t* tokens, std::int32_t* targets) const;

  std::uint32_t checksum() const { return scan().checksum; }  // CRC-32 of the file

 private:
  // Result of one pass over the whole file. The first call of scan() computes it.
  struct Scan {
    std::uint32_t checksum = 0;
    // The fields below are set for tokens only, not for text.
    std::uint32_t largest = 0;                        // largest token
    std::uint32_t largest_even = 0, largest_odd = 0;  // largest uint16 word by the parity of its index
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

// The order in which training reads the windows of its data. The seed determines the permutation of each
// epoch. at() computes the window of any position, so a checkpoint stores only the position.
class WindowOrder {
 public:
  WindowOrder(std::uint64_t seed, std::int64_t windows);  // windows: at least 1

  // Returns the window at a position, as the index of its first token. Positions count from 0 across all epochs.
  std::int64_t at(std::int64_t position) const;

 private:
  std::uint64_t seed_;
  std::uint64_t windows_;
  int half_bits_;  // half the bits of the numbers that the Feistel network permutes
};

}  // namespace strobe::lm
