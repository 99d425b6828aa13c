// Reads any bytes as a safetensors file. The reader must reject it with a one-line error, or return only tensors inside
// the file. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lm/data/safetensors.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns true if the reader accepts the file.
inline bool fuzz_safetensors(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view file = text_of(data, bytes);
  lm::SafeTensors parsed;
  if (!is_accepted([&] { parsed = lm::parse_safetensors(file, "file"); })) return false;
  std::size_t next = 0;
  for (const lm::StoredTensor& tensor : parsed.tensors) {
    require(tensor.begin == next && tensor.end >= tensor.begin, "tensors follow each other without a gap");
    next = tensor.end;
  }
  require(parsed.data_begin <= bytes && next == bytes - parsed.data_begin, "tensors fill the rest of the file");
  lm::SafeTensors again = parsed;
  const std::string written = lm::header_of(again) + std::string(file.substr(parsed.data_begin));
  const lm::SafeTensors reread = lm::parse_safetensors(written, "file");
  require(reread.tensors == parsed.tensors && reread.metadata == parsed.metadata,
          "a header is the same after writing and reading");
  return true;
}

}  // namespace strobe::test
