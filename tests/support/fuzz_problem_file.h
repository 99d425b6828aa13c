// Reads any bytes as a problem file of the course. The reader must reject it with a one-line error; otherwise all
// floats of the file must be readable. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "solve/problem_file.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

inline void require_problem(const solve::ProblemFile& problem, std::size_t bytes) {
  const solve::ProblemSize& size = problem.size();
  require(size.batch >= 1 && size.rows >= 1 && size.dim >= 1, "sizes are 1 or more");
  require(static_cast<std::size_t>(size.total()) * 12 + solve::kHeaderBytes == bytes,
          "a file has the size that its header implies");
  problem.load(0, size.batch);
  std::vector<float> values(static_cast<std::size_t>(3 * size.elements()));
  for (std::int64_t b = 0; b < size.batch; ++b) {
    problem.read(b, 0, 3 * size.elements(), values.data());
    const volatile float last = problem.v(b)[size.elements() - 1];
    static_cast<void>(last);
  }
  problem.unload(0, size.batch);
}

// Returns true if the reader accepts the file.
inline bool fuzz_problem_file(const std::uint8_t* data, std::size_t bytes) {
  const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  require(descriptor >= 0 && write(descriptor, data, bytes) == static_cast<ssize_t>(bytes),
          "the harness can write its input");
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const bool accepted = is_accepted([&] { const solve::ProblemFile problem(path); });
  if (accepted) require_problem(solve::ProblemFile(path), bytes);
  close(descriptor);
  return accepted;
}

}  // namespace strobe::test
