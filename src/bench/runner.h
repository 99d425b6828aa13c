// Measures all implementations of one case: checks each one in isolation, then times them interleaved.
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
  std::optional<std::int64_t> memory_limit;  // bytes; simulates a machine with less memory
  std::uint64_t seed = 1;

  // Callbacks; each may be empty. progress is called at the start of a step, such as "check", with the implementation,
  // or "" for a step that concerns all of them.
  std::function<void(const std::string& step, const std::string& implementation)> progress;
  // Called as soon as an implementation fails. The other rows are complete when run_case returns.
  std::function<void(const Row&)> failed;
  // Called after the check and after each round, with an estimate of the remaining time for the required samples.
  std::function<void(double seconds)> left;
};

using Implementations = std::vector<std::unique_ptr<Implementation>>;

// Returns one row per implementation, in order. A failure of one implementation affects only its row, see Row::status.
// On a GPU, Row::driver_bytes is the decrease of free memory (cudaMemGetInfo) from prepare() to the end of the warm-up.
// It excludes kernels and library handles, which are loaded before prepare(). For torch-* and fa3, it includes
// PyTorch's allocator cache and the 256 MiB buffer that the Python process uses to flush L2. driver_bytes is empty if
// free memory did not decrease, and wrong if another process allocates at the same time. Throws only if no
// implementation can run: the case is invalid, or the inputs do not fit in memory.
std::vector<Row> run_case(const AttentionCase& one, const Implementations& implementations, const RunOptions& options);

}  // namespace strobe::bench
