// `strobe lm bench --ddp`: compares strategies of data parallel training with each other and with one process.
#pragma once

#include "app/command.h"
#include "cli/lm/bench_options.h"

namespace strobe::cli {

// Called on every rank of the job that this process is in; rank 0 writes and prints. `arguments`: those of this
// command, which its child gets too. Returns the exit code.
int run_lm_bench_on_ranks(const LmBenchOptions& options, Arguments arguments);

}  // namespace strobe::cli
