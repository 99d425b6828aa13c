// Reads and writes safetensors files: a length of eight bytes (little-endian), a JSON header with each tensor's
// position and a table of strings, then the tensors' bytes. Checkpoints are written and read here; no header is
// trusted. The format allows a header of 100 MB; the reader takes 64 MiB, the limit of every JSON document.
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
  std::string dtype;  // as the format spells it: "F32", "U8"
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;  // bytes, from the first of the data

  bool operator==(const StoredTensor&) const = default;
};

struct SafeTensors {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::size_t data_begin = 0;         // byte of the file; a multiple of 8 where header_of() set it

  const std::string* find_metadata(std::string_view key) const;  // null: no such key
  std::size_t data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
};

// Adds a tensor behind the others.
void append(SafeTensors& file, std::string name, std::string dtype, std::vector<std::int64_t> shape);

// All that stands before the data, the length too; sets data_begin.
std::string header_of(SafeTensors& file);

// `file` is the whole file; `shown`, its name, stands before the reason of a refusal. Throws Error(invalid_argument),
// one line, where the header is not whole or not JSON, has a name twice, an unknown type, a shape or bytes that do not
// agree or do not fit 63 bits, or where the tensors overlap, leave bytes out or are not exactly the rest of the file.
SafeTensors parse_safetensors(std::string_view file, std::string_view shown);

}  // namespace strobe::lm
