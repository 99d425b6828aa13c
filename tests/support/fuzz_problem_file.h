// Any bytes as a problem file: they are refused as bad input, or every float of them can be read. Called by libFuzzer
// (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "solve/problem_file.h"
#include "strobe/error.h"

namespace strobe::test {

// Whether they are a problem. Ends the process where a rule is broken.
inline bool fuzz_problem_file(const std::uint8_t* data, std::size_t bytes) {
  const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, bytes) != static_cast<ssize_t>(bytes)) std::abort();
  bool taken = false;
  try {
    const solve::ProblemFile problem("/proc/self/fd/" + std::to_string(descriptor));
    const solve::ProblemSize& size = problem.size();
    taken = true;
    if (size.batch < 1 || size.rows < 1 || size.dim < 1) std::abort();
    if (static_cast<std::size_t>(size.total()) * 12 + solve::kHeaderBytes != bytes) std::abort();
    problem.load(0, size.batch);
    std::vector<float> values(static_cast<std::size_t>(3 * size.elements()));
    for (std::int64_t b = 0; b < size.batch; ++b) {
      problem.read(b, 0, 3 * size.elements(), values.data());
      const volatile float last = problem.v(b)[size.elements() - 1];
      static_cast<void>(last);
    }
    problem.unload(0, size.batch);
  } catch (const Error& error) {
    if (taken || error.code() != ErrorCode::invalid_argument) std::abort();
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  close(descriptor);
  return taken;
}

}  // namespace strobe::test
