// libFuzzer entry point for result rows of the course ladder (support/fuzz_ladder_rows.h). tools/fuzz builds and runs
// it.
#include "fuzz/json_entry.h"
#include "support/fuzz_ladder_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_ladder_rows(data, bytes);
  return 0;
}
