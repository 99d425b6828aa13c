// libFuzzer entry point for result files (support/fuzz_result_rows.h). tools/fuzz builds and runs it.
#include "fuzz/json_entry.h"
#include "support/fuzz_result_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_result_rows(data, bytes);
  return 0;
}
