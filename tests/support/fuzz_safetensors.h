// Any bytes as a safetensors file: they are refused as bad input in one line, or every tensor lies inside them. Called
// by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lm/safetensors.h"
#include "strobe/error.h"

namespace strobe::test {

// Whether they are a file. Ends the process where a rule is broken.
inline bool fuzz_safetensors(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view file(reinterpret_cast<const char*>(data), bytes);
  lm::SafeTensors parsed;
  try {
    parsed = lm::parse_safetensors(file, "file");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
    return false;
  }
  std::size_t next = 0;
  for (const lm::StoredTensor& tensor : parsed.tensors) {
    if (tensor.begin != next || tensor.end < tensor.begin) std::abort();
    next = tensor.end;
  }
  if (parsed.data_begin > bytes || next != bytes - parsed.data_begin) std::abort();
  lm::SafeTensors again = parsed;  // what was read can be written, and is the same then
  const std::string written = lm::header_of(again) + std::string(file.substr(parsed.data_begin));
  const lm::SafeTensors once_more = lm::parse_safetensors(written, "file");
  if (once_more.tensors != parsed.tensors) std::abort();
  return true;
}

}  // namespace strobe::test
