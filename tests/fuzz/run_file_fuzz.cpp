// libFuzzer entry point for run.json of a training run (support/fuzz_run_file.h). tools/fuzz builds and runs it.
#include "fuzz/json_entry.h"
#include "support/fuzz_run_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_run_file(data, bytes);
  return 0;
}
