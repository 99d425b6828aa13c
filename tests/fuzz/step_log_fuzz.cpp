// libFuzzer entry point for steps.jsonl of a training run (support/fuzz_step_log.h). tools/fuzz builds and runs it.
#include "support/fuzz_step_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_step_log(data, bytes);
  return 0;
}
