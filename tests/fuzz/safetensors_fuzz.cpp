// libFuzzer entry point for safetensors files (support/fuzz_safetensors.h). tools/fuzz builds and runs it.
#include "support/fuzz_safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_safetensors(data, bytes);
  return 0;
}
