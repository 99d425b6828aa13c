// Reads and writes headers of safetensors files, the format of checkpoints. A file has an 8-byte little-endian header
// length, a JSON header with metadata strings and the offsets of each tensor, and the data. The reader validates every
// header. The format allows a header of 100 MB; the reader accepts 64 MiB, the limit of Json::parse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::lm {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as in the file: "F32", "U8"
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;  // bytes from the start of the data

  bool operator==(const StoredTensor&) const = default;
};

struct SafeTensors {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<StoredTensor> tensors;  // in the order of their data in the file
  std::size_t data_begin = 0;         // file offset in bytes; a multiple of 8 if header_of() set it

  const std::string* find_metadata(std::string_view key) const;  // null if the key is missing
  std::size_t data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
};

// Appends a tensor whose data follow those of the last tensor.
void append(SafeTensors& file, std::string name, std::string dtype, std::vector<std::int64_t> shape);

// Returns the header including its length field, and sets data_begin.
std::string header_of(SafeTensors& file);

// `file` is the content of the whole file; `shown` is its name and prefixes every error. Throws Error(invalid_argument)
// with one line if the header is truncated or not JSON, a name is duplicated, or a dtype is unknown. Also throws if a
// shape disagrees with its byte range or a size does not fit in 63 bits. Tensors must not overlap and must cover the
// data completely.
SafeTensors parse_safetensors(std::string_view file, std::string_view shown);

}  // namespace strobe::lm
