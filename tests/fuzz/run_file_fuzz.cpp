// Entry point of libFuzzer; built and run by tools/fuzz.
#include "fuzz/json_entry.h"
#include "support/fuzz_run_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_run_file(data, bytes);
  return 0;
}
