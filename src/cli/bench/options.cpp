// bench's flags put together, and where its cases come from.
#include "cli/bench/options.h"

#include "cli/bench/cells.h"

namespace strobe::cli {

OptionTable make_table(BenchOptions& options) {
  OptionTable table;
  add_case_options(table, options.one);
  add_run_options(table, options.how);
  table.add({.name = "launches",
             .placeholder = "N",
             .help = "the whole run in N processes, one after the other; `strobe compare` wants 5; default 1",
             .apply = [&](auto flag, auto value) {
               options.launches = static_cast<int>(parse_integer(flag, value, 1, 1000));
             }});
  table.add({.name = "output",
             .placeholder = "FILE",
             .help = "JSON of all rows; default benchmark_result.json; - is the standard output",
             .apply = [&](auto, auto value) { options.output = value; }});
  table.add(
      {.name = "cells",
       .placeholder = "FILE",
       .help = "several configurations in one run: a line each, of flags that describe one; other flags hold for all",
       .apply = [&](auto flag, auto value) { options.cells = parse_text(flag, value); }});
  return table;
}

Cases cases_of(const BenchOptions& options) {
  if (!options.cells.empty()) return read_cells(options.cells, options.one);
  Cases cases = cases_of(options.one);
  check_problems(cases);
  return cases;
}

}  // namespace strobe::cli
