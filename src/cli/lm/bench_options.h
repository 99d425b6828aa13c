// Flags of `strobe lm bench`, and those of them that say what is measured, which other commands share.
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
  std::vector<std::string> sizes{};    // empty: small, on the CPU tiny
  ShapeFlags shape;                    // what of each size is another; neither size nor context
  std::vector<std::int64_t> contexts;  // none: each size's own
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
  std::vector<std::string> strategies;                    // of several ranks, side by side; none: one process
  std::vector<std::int64_t> buckets;                      // bytes
  std::string bucket_text;                                // --bucket-mb as it was given
  comm::EngineKind engine = comm::EngineKind::automatic;  // of ranks
  std::string trace;                                      // a file, of several ranks
  std::string output = "lm_bench_result.json";
  std::string as_one_process;  // internal: this process is the child of rank 0 (one_process.h)
};

// As the command begins: on a GPU where there is one.
LmBenchOptions default_lm_bench_options();

// What is run and where: size and what changes it, batch, precision, attention, recompute, deterministic, device,
// threads.
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

// "small", or "small (gpt2, layers 2)" where it is another network than the size's own.
std::string model_text(const LmBenchCell& cell);

// What every row of a result says of its cell, into the row: size, arch, parameters, dimensions, context, batch,
// precision and recompute.
void add_model(Json& row, const LmBenchCell& cell);

// "small, context 512, batch 4, bf16, recompute block"; that nothing is recomputed is not told.
std::string title_of(const LmBenchCell& cell);

// Every combination, precisions and in them recomputations innermost so that they stand side by side. Refuses what
// cannot run before anything does.
std::vector<LmBenchCell> lm_bench_cells(const LmBenchOptions& options);

// Runs a cell under its name as progress. What it says where it does not fit the memory, else nothing.
std::optional<std::string> oom_of(const std::string& name, const std::function<void()>& run);
int complain_that_none_fits(const char* command, const std::string& files);  // the exit code

}  // namespace strobe::cli
