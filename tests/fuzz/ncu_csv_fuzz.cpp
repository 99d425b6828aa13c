// libFuzzer entry point for CSV output of ncu (support/fuzz_ncu_csv.h). tools/fuzz builds and runs it.
#include "support/fuzz_ncu_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_ncu_csv(data, bytes);
  return 0;
}
