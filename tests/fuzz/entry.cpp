// libFuzzer's entry points for the harness STROBE_FUZZ_FUNCTION of the header STROBE_FUZZ_HEADER, a
// support/fuzz_NAME.h. If STROBE_FUZZ_JSON is defined, three of four mutations change a JSON value, the others bytes.
// tools/fuzz builds this file once per harness.
#include STROBE_FUZZ_HEADER

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::STROBE_FUZZ_FUNCTION(data, bytes);
  return 0;
}

#ifdef STROBE_FUZZ_JSON
#include "support/json_mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 4 != 0) {
    if (const std::size_t changed = strobe::test::mutate_json(data, size, most, seed / 4)) return changed;
  }
  return LLVMFuzzerMutate(data, size, most);
}
#endif
