// `strobe lm bench --ddp`: strategies of data parallel training side by side, beside one process.
#pragma once

#include "cli/commands.h"
#include "cli/lm_bench_options.h"

namespace strobe::cli {

// All ranks of the job call it; rank 0 writes and prints. `arguments` are this command's, and are passed to the child
// that measures one process. Returns the exit code.
int run_lm_bench_on_ranks(const LmBenchOptions& options, Arguments arguments);

}  // namespace strobe::cli
