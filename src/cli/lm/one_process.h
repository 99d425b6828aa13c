// Measures the row `one process` of `strobe lm bench --ddp`. A child process of rank 0 runs the steps while all ranks
// sleep. The child may use all cores of the job, but has only as many threads as one rank.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "app/program.h"
#include "cli/lm/bench_options.h"
#include "comm/communicator.h"
#include "lm/data_parallel/parallel_bench.h"
#include "process/child.h"

namespace strobe::cli {

// Internal flag, hidden from --help: runs `lm bench` as that child. Its value is CELL,THREADS.
inline constexpr const char* kOneProcessFlag = "as-one-process";

int run_as_one_process(const LmBenchOptions& options);

// Starts the child and reads its messages, on rank 0.
class OneProcess {
 public:
  // `arguments` are the words of this command; `cell` is the index in lm_bench_cells().
  OneProcess(const comm::Communicator& ranks, Arguments arguments, std::size_t cell, int threads);

  // Waits for a few seconds. Returns true once the child has sent its times or reported out of memory. Throws
  // Error(runtime) if the child ends without either, or reports no step within the communicator's operation limit.
  bool advance();

  const std::optional<lm::ParallelTimes>& times() const { return times_; }
  const std::string& error() const { return error_; }  // out-of-memory message

 private:
  void take(const std::string& line);

  double limit_, heard_;  // longest time between messages, in seconds; time of the last message
  std::optional<lm::ParallelTimes> times_;
  std::string error_;
  bool done_ = false;
  std::optional<Child> child_;
};

}  // namespace strobe::cli
