// libFuzzer entry point for limits files of `strobe compare --require` (support/fuzz_limits.h). tools/fuzz builds and
// runs it.
#include "support/fuzz_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_limits(data, bytes);
  return 0;
}
