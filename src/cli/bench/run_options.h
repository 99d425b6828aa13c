// The flags that say how a configuration is measured: part of bench's and sweep's. `explain` takes them too, without
// effect but for --quick.
#pragma once

#include "app/options.h"
#include "bench/runner.h"

namespace strobe::cli {

struct RunFlags {
  bench::RunOptions run;  // all but its check and its callbacks
  double peer_timeout = 600;
  bool check = true;
  bool quick = false;
  bool pin = true;
};

void add_run_options(OptionTable& table, RunFlags& options);

}  // namespace strobe::cli
