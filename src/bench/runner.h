// Measures all implementations of one case in one run: gate first, each in isolation; then interleaved timing.
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
  std::optional<std::int64_t> memory_limit;  // bytes; imitates a smaller machine
  std::uint64_t seed = 1;

  // Callbacks may be empty. progress: called at the start of a step ("check") with its implementation, "" if it
  // concerns all.
  std::function<void(const std::string& step, const std::string& implementation)> progress;
  // Called as soon as a row cannot have times. run_case returns the rows with times.
  std::function<void(const Row&)> failed;
  // Called after the check and after each round with the estimated seconds of the remaining mandatory calls.
  std::function<void(double seconds)> left;
};

using Implementations = std::vector<std::unique_ptr<Implementation>>;

// Returns one row per implementation, in order. A failure of one affects only its row: see Row::status.
// On a GPU Row::driver_bytes is the decrease of the driver's free memory (cudaMemGetInfo) from before the timed
// preparation to after the warm-up. Kernels and library handles are loaded by then and do not count; for torch-*
// PyTorch's cache and its 256 MiB L2 flush buffer do. It is empty if free memory did not decrease, and wrong if another
// process allocates at the same time. Throws only if no implementation can run: the case is invalid, or the inputs do
// not fit in memory.
std::vector<Row> run_case(const Case& one, const Implementations& implementations, const RunOptions& options);

}  // namespace strobe::bench
