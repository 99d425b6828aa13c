// Entry point of libFuzzer; built and run by tools/fuzz.
#include "support/fuzz_ncu_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_ncu_csv(data, bytes);
  return 0;
}
