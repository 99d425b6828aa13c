// libFuzzer entry point for problem files of the course (support/fuzz_problem_file.h). tools/fuzz builds and runs it.
#include "support/fuzz_problem_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_problem_file(data, bytes);
  return 0;
}
