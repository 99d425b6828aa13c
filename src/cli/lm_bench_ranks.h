// `strobe lm bench --ddp`: strategies of data parallel training side by side, beside one process.
#pragma once

#include "cli/lm_bench_options.h"

namespace strobe::cli {

// On every rank of the job that this process is in; rank 0 writes and tells. The exit code.
int run_lm_bench_on_ranks(const LmBenchOptions& options);

}  // namespace strobe::cli
