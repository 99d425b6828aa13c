// The flags of `strobe sweep` and what they come to: which problems, in which order, measured how.
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

// Flags as they were given, the last value of each: name as the help spells it, and text.
using GivenFlags = std::vector<std::pair<std::string, std::string>>;

struct SweepOptions {
  std::string grid;                   // name or path; empty: the axes alone
  std::vector<bench::Axis> axes;      // of the command line: they replace those of the grid
  GivenFlags run;                     // likewise
  std::optional<std::string> output;  // absent: named after the grid
  std::string json_dir;               // empty: none
  std::string program;                // that runs the problems; empty: this one
  double cell_limit = 600;            // seconds
  std::int64_t shrink = 1;
  int shard = 1, shards = 1;
  int launches = 1;
  bool dry_run = false;
  bool retry = false;  // rows that failed count as missing
};

void add_sweep_options(OptionTable& table, SweepOptions& options);

struct SweepPlan {
  std::vector<bench::Problem> problems;  // of this shard, each launch one
  std::size_t cells_of_all = 0;          // of all shards together
  std::vector<std::string> run_words;    // flags of bench for every problem
  RunFlags how;                          // the same, read
  std::string output;
  std::vector<std::string> notes;         // skipped cells with the reason, one line each
  std::vector<std::string> absent_peers;  // the grid's peers that are skipped: Python finds no PyTorch

  int launches = 1;

  const char* unit() const { return launches > 1 ? "row" : "cell"; }  // what is counted
};

// `this_program` is the path of the running program: grids lie beside it. Throws Error(invalid_argument) for any value
// that bench would refuse and where no cell is left.
SweepPlan make_plan(const SweepOptions& options, const std::string& this_program);

}  // namespace strobe::cli
