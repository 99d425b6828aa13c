// Measures all implementations of one case in the same run: gate first, each alone; then timed in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/implementation.h"
#include "bench/row.h"
#include "measure/stopping_rule.h"

namespace strobe::bench {

enum class Check { on, off };

struct RunOptions {
  StoppingRule rule;
  Check check = Check::on;
  std::optional<std::int64_t> memory_limit;  // bytes: imitates a smaller machine
  std::uint64_t seed = 1;

  // Each may be empty. The step that begins ("check") and the implementation that it is about, "" where it is about
  // all.
  std::function<void(const std::string& step, const std::string& implementation)> progress;
  // A row that will have no times, the moment this is known; those with times are known when run_case returns.
  std::function<void(const Row&)> failed;
  // After the check and after each round of samples: the seconds that calls which must come will take, by those so far.
  std::function<void(double seconds)> left;
};

using Implementations = std::vector<std::unique_ptr<Implementation>>;

// One row for each implementation, in order. What goes wrong with one costs its row: see Row::status.
// On a GPU Row::driver_bytes is the decrease of the driver's free memory (cudaMemGetInfo) from before an implementation
// is prepared for the timed calls to after its warm-up. Kernels and library handles are loaded by then and do not
// count; for torch-* PyTorch's cache does, and its 256 MiB that flush the L2 cache. It is empty if free memory did not
// fall, and wrong if another process allocates meanwhile. Throws only if no implementation can run: the case is
// not valid, or the inputs do not fit in memory.
std::vector<Row> run_case(const Case& one, const Implementations& implementations, const RunOptions& options);

}  // namespace strobe::bench
