// Entry point of libFuzzer; built and run by tools/fuzz.
#include "support/fuzz_step_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_step_log(data, bytes);
  return 0;
}
