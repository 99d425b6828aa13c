// All flags of `bench`, which are those of `explain` too, and the cases that they describe.
#pragma once

#include <string>

#include "cli/bench/case_options.h"
#include "cli/bench/run_options.h"

namespace strobe::cli {

struct BenchOptions {
  CaseOptions one;
  RunFlags how;
  std::string output = "benchmark_result.json";
  std::string cells;  // file of configurations; empty: the one of the flags
  int launches = 1;
};

OptionTable make_table(BenchOptions& options);

// Those of the flags, or of the file of cells; the library has found each of them valid.
Cases cases_of(const BenchOptions& options);

}  // namespace strobe::cli
