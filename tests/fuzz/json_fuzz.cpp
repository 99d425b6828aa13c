// libFuzzer entry point for JSON documents (support/fuzz_json.h). tools/fuzz builds and runs it.
#include "fuzz/json_entry.h"
#include "support/fuzz_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_json(data, bytes);
  return 0;
}
