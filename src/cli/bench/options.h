// All flags of `bench`, which `explain` also accepts, and the cases that they describe.
#pragma once

#include <string>

#include "app/options.h"
#include "bench/runner.h"
#include "cli/bench/case_options.h"

namespace strobe::cli {

// Flags that control the measurement. `explain` accepts them too, but only --quick has an effect there.
struct RunFlags {
  bench::RunOptions run;  // its `check` and callbacks stay unset
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
  std::string cells;  // file of configurations; empty: the flags describe one configuration
  int launches = 1;
};

OptionTable make_table(BenchOptions& options);

// Returns the cases of the flags, or of the file `--cells`. A line of the file has the text of a case
// (core/case_text.h), flags, or both. The library has validated every case.
Cases cases_of(const BenchOptions& options);

// Reads a file of configurations. Each line describes one and overrides the flags of the command line. Blank lines and
// lines that begin with # are skipped. Flags that apply to a whole run (--impl, --device, --threads, measuring) are
// errors in a line. Throws Error(invalid_argument) with the file and, if known, the line.
Cases read_cells(const std::string& path, const CaseOptions& defaults);

}  // namespace strobe::cli
