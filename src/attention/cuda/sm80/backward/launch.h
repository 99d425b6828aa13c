// Backward launches: rows first (spread.cu, prepare.cu), then tiles of keys by padded head dimension (d32.cu ..
// d256.cu), then dQ rounded, and the gradients of bias and sinks.
#pragma once

#include "attention/cuda/sm80/backward/args.h"
#include "attention/cuda/sm80/backward/config.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm80 {

struct BackwardLaunch {
  BackwardConfig config;
  DType dtype = DType::bf16;
  void* stream = nullptr;
  BackwardArgs args;
};

// Bytes of the parts of a workspace, each a multiple of 16.
struct BackwardWorkspace {
  std::size_t delta = 0, log2_sums = 0, row_facts = 0, dq_sum = 0, turns = 0, spread = 0, dbias_sums = 0;
  std::size_t total() const { return delta + log2_sums + row_facts + dq_sum + turns + spread + dbias_sums; }
};

BackwardWorkspace backward_workspace(const BackwardConfig& config, const BackwardArgs& args, DType dtype);

// The tiles of the plan, for args with params and deterministic.
void backward_tiles(const BackwardConfig& config, BackwardArgs& args);

// How dbias comes about, after backward_tiles(); where a kernel of its own sums it up, in so many parts that they fill
// the card.
void plan_dbias(const BackwardConfig& config, const DbiasShape& shape, int multiprocessors, BackwardArgs& args);

void launch_spread(const BackwardLaunch& launch);  // for kernels with scales
void launch_delta(const BackwardLaunch& launch);   // 16 bits; fp32 has launch_row_sums()
void launch_dsinks(const BackwardLaunch& launch);
void launch_zero_dbias(const BackwardLaunch& launch);
void launch_add_dbias(const BackwardLaunch& launch);

template <int kD>
void launch_backward_tiles(const BackwardLaunch& launch);
template <int kD>
void launch_row_sums(const BackwardLaunch& launch);
template <int kD>
void launch_dbias(const BackwardLaunch& launch);

// The whole pass; `launch.args` as backward_tiles() left it.
void launch_backward(BackwardLaunch launch, void* workspace);

}  // namespace strobe::cuda::sm80
