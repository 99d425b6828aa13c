// All flags of `bench`, which are those of `explain` too, and the cases that they describe.
#pragma once

#include <string>

#include "app/options.h"
#include "bench/runner.h"
#include "cli/bench/case_options.h"

namespace strobe::cli {

// How a configuration is measured. `explain` takes these flags too; only --quick has an effect there.
struct RunFlags {
  bench::RunOptions run;  // all but its check and its callbacks
  double peer_timeout = 600;
  bool check = true;
  bool quick = false;
  bool pin = true;
};

void add_run_options(OptionTable& table, RunFlags& options);

struct BenchOptions {
  CaseOptions one;
  RunFlags how;
  std::string output = "benchmark_result.json";
  std::string cells;  // file of configurations; empty: the one of the flags
  int launches = 1;
};

OptionTable make_table(BenchOptions& options);

// The cases of the flags, or of the file `--cells`: each line of it is the text of a case (core/case_text.h), flags, or
// both. The library has found each of them valid.
Cases cases_of(const BenchOptions& options);

// A file of configurations: on each line flags that describe one, beyond those of the command line. Lines that are
// blank or begin with # are passed over. What holds for a whole run (--impl, --device, --threads and how it is
// measured) is refused in a line. Throws Error(invalid_argument) with the file, and the line where there is one.
Cases read_cells(const std::string& path, const CaseOptions& defaults);

}  // namespace strobe::cli
