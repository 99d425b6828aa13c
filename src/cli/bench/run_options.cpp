// How a configuration is measured, as flags.
#include "cli/bench/run_options.h"

#include "app/common_options.h"

namespace strobe::cli {

void add_run_options(OptionTable& table, RunFlags& options) {
  bench::RunOptions& run = options.run;
  table.add({.name = "repeats",
             .aliases = {"repeat"},
             .placeholder = "N",
             .help = "exactly N samples; default: until the median is known within 1 %",
             .apply = [&](auto flag, auto value) {
               run.rule.repeats = static_cast<int>(parse_integer(flag, value, 1, 1000000));
             }});
  table.add(make_switch("check", "compare with float64 before timing; default on", options.check));
  table.add({.name = "memory-limit",
             .placeholder = "SIZE",
             .help = "imitate a machine with that much memory, such as 24G",
             .apply = [&](auto flag, auto value) { run.memory_limit = parse_bytes(flag, value); }});
  table.add({.name = "time-limit",
             .placeholder = "SECONDS",
             .help = "of sampling a configuration, a quarter of it at most for warming up a pass; default 20",
             .apply = [&](auto flag, auto value) { run.rule.time_limit = parse_seconds(flag, value); }});
  table.add({.name = "peer-timeout",
             .placeholder = "SECONDS",
             .help = "a peer that does not answer for so long has failed; default 600",
             .apply = [&](auto flag, auto value) { options.peer_timeout = parse_seconds(flag, value); }});
  table.add(make_seed_option([&run](std::uint64_t seed) { run.seed = seed; }));
  table.add(make_switch("pin", "keep to as many cores as threads; default on", options.pin));
  table.add(make_quick_option(options.quick));
}

}  // namespace strobe::cli
