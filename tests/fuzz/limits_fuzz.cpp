// Entry point of libFuzzer; built and run by tools/fuzz.
#include "support/fuzz_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_limits(data, bytes);
  return 0;
}
