// Flags of `strobe lm bench`; other commands share those that describe what is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "cli/lm/shape_options.h"
#include "comm/communicator.h"
#include "core/json.h"
#include "lm/profile/step_bench.h"

namespace strobe::cli {

struct LmBenchOptions {
  std::vector<std::string> sizes{};    // empty: small; on the CPU tiny
  ShapeFlags shape;                    // overrides of each size's dimensions; without size and context
  std::vector<std::int64_t> contexts;  // empty: each size's default
  std::vector<std::int64_t> batches = {4}, warmups = {5};
  std::vector<lm::Precision> precisions = {lm::Precision::fp32};
  lm::BenchPass pass = lm::BenchPass::step;
  int steps = 10;
  std::optional<int> threads;
  std::string attention;
  std::vector<lm::Recompute> recomputes = {lm::Recompute::none};
  bool deterministic = true, quick = false;
  double clip = 0;
  Device device = Device::cpu;
  std::vector<std::string> strategies;  // strategies of several ranks, compared with each other; empty: one process
  std::vector<std::int64_t> buckets;    // bytes
  std::string bucket_text;              // --bucket-mb as it was given
  comm::EngineKind engine = comm::EngineKind::automatic;  // engine of the ranks
  std::string trace;                                      // trace file of several ranks
  std::string output = "lm_bench_result.json";
  std::string as_one_process;  // internal: this process is the child of rank 0 (one_process.h)
};

// Defaults of the command: on a GPU if there is one.
LmBenchOptions default_lm_bench_options();

// Adds the flags for what runs where: size and its overrides, batch, precision, attention, recompute, deterministic,
// device, threads.
void add_lm_cell_options(OptionTable& table, LmBenchOptions& options);
Option make_warmup_option(LmBenchOptions& options);
Option make_steps_option(LmBenchOptions& options);
Option make_file_option(const char* name, const char* help, std::string& target);
OptionTable lm_bench_table(LmBenchOptions& options);

// One size and how it is measured.
struct LmBenchCell {
  std::string size;
  lm::BenchCase one;
};

// "small", or "small (gpt2, layers 2)" if the network differs from the size's defaults.
std::string model_text(const LmBenchCell& cell);

// Adds to `row` the fields that every result row has of its cell: size, arch, parameters, dimensions, context, batch,
// precision and recompute.
void add_model(Json& row, const LmBenchCell& cell);

// "small, context 512, batch 4, bf16, recompute block"; recompute is omitted if nothing is recomputed.
std::string title_of(const LmBenchCell& cell);

// Every combination of the flags. Recomputation varies fastest, then precision, so that rows to compare are adjacent.
// Throws for combinations that cannot run, before any of them runs.
std::vector<LmBenchCell> lm_bench_cells(const LmBenchOptions& options);

// Runs a cell and shows `name` as progress. Returns the error message if the cell runs out of memory, else nothing.
std::optional<std::string> oom_of(const std::string& name, const std::function<void()>& run);
int complain_that_none_fits(const char* command, const std::string& files);  // returns the exit code

}  // namespace strobe::cli
