// libFuzzer entry point for calls of the C ABI (support/fuzz_c_api.h). tools/fuzz builds and runs it.
#include "support/fuzz_c_api.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_c_api(data, bytes);
  return 0;
}
