// The flags of `strobe sweep` and the plan that they describe: problems, their order, and how they are measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/options.h"
#include "bench/sweep/grid_file.h"
#include "bench/sweep/problem.h"
#include "cli/bench/options.h"

namespace strobe::cli {

// Flags that were given, as pairs of name (spelled as in the help) and value. A repeated flag has its last value.
using GivenFlags = std::vector<std::pair<std::string, std::string>>;

struct SweepOptions {
  std::string grid;                   // name or path; empty: only the axes
  std::vector<bench::Axis> axes;      // from the command line; they replace the grid's axes
  GivenFlags run;                     // measurement flags of the command line; they replace the grid's
  std::optional<std::string> output;  // nullopt: named after the grid
  std::string json_dir;               // empty: no JSON files
  std::string program;                // program that runs the problems; empty: this one
  double cell_limit = 600;            // seconds
  std::int64_t shrink = 1;
  int shard = 1, shards = 1;
  int launches = 1;
  bool dry_run = false;
  bool retry = false;  // measures failed cells again
};

void add_sweep_options(OptionTable& table, SweepOptions& options);

struct SweepPlan {
  std::vector<bench::SweepProblem> problems;  // problems of this shard; one copy per launch
  std::size_t cells_of_all = 0;               // cells of all shards
  std::vector<std::string> run_words;         // measurement flags of bench, the same for every problem
  RunFlags how;                               // run_words, parsed
  std::string output;
  std::vector<std::string> notes;         // skipped cells with the reason, one line each
  std::vector<std::string> absent_peers;  // implementations skipped because Python has no PyTorch

  int launches = 1;

  const char* unit() const { return launches > 1 ? "row" : "cell"; }  // unit of the counts in messages
};

// `this_program` is the path of the running program, which locates the named grids. Throws Error(invalid_argument)
// for a value that bench would reject, and if no cell is left.
SweepPlan make_plan(const SweepOptions& options, const std::string& this_program);

}  // namespace strobe::cli
