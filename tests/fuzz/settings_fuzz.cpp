// libFuzzer entry point for checkpoint metadata (support/fuzz_settings.h). tools/fuzz builds and runs it.
#include "fuzz/json_entry.h"
#include "support/fuzz_settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_settings(data, bytes);
  return 0;
}
