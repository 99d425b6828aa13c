// Entry point of libFuzzer; built and run by tools/fuzz.
#include "support/fuzz_grid_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_grid_file(data, bytes);
  return 0;
}
