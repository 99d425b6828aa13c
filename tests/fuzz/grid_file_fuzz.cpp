// libFuzzer entry point for grid files of a sweep (support/fuzz_grid_file.h). tools/fuzz builds and runs it.
#include "support/fuzz_grid_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_grid_file(data, bytes);
  return 0;
}
