// Flags of `strobe lm bench`. Other commands share the flags that describe the measured model and step.
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
  ShapeFlags shape;                    // overrides of each size's dimensions; its `size` and context are not used
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
  std::vector<std::string> strategies;  // gradient exchanges to compare on several ranks; empty: one process
  std::vector<std::int64_t> buckets;    // bytes
  std::string bucket_text;              // --bucket-mb as it was given
  comm::EngineKind engine = comm::EngineKind::automatic;  // engine of the ranks
  std::string trace;                                      // trace file of several ranks
  std::string output = "lm_bench_result.json";
  std::string as_one_process;  // internal: this process is the child of rank 0 (one_process.h)
};

// Returns the default options, which use a GPU if there is one.
LmBenchOptions default_lm_bench_options();

// Adds the flags of the measured model and step: size and its overrides, context, batch, precision, attention,
// recompute, deterministic, device, threads.
void add_lm_cell_options(OptionTable& table, LmBenchOptions& options);
Option make_warmup_option(LmBenchOptions& options);
Option make_steps_option(LmBenchOptions& options);
Option make_file_option(const char* name, const char* help, std::string& target);
OptionTable lm_bench_table(LmBenchOptions& options);

// A cell is one combination of the flags' values: a model size and how its step is measured.
struct LmBenchCell {
  std::string size;
  lm::BenchCase one;
};

// Returns "small", or "small (gpt2, layers 2)" if the network differs from the size's defaults.
std::string model_text(const LmBenchCell& cell);

// Adds to a result row the fields that describe its cell: model, size, arch, parameters, dimensions, context, batch,
// precision and recompute.
void add_model(Json& row, const LmBenchCell& cell);

// Returns "small, context 512, batch 4, bf16, recompute block"; recompute is omitted if nothing is recomputed.
std::string title_of(const LmBenchCell& cell);

// Returns one cell per combination of the flags' values. Recomputation varies fastest, then precision, so that rows to
// be compared are adjacent. Throws for a combination that cannot run, before any cell is measured.
std::vector<LmBenchCell> lm_bench_cells(const LmBenchOptions& options);

// Calls `run` and shows `name` as progress. Returns the error message if `run` is out of memory, else nullopt.
std::optional<std::string> oom_of(const std::string& name, const std::function<void()>& run);
// Prints that no cell fits in memory, so `files` are not written. Returns the exit code.
int complain_that_none_fits(const char* command, const std::string& files);

}  // namespace strobe::cli
