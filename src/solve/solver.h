// The solvers, which compute an answer file from a problem file on the CPU or a GPU. solve.cpp calls one of them.
#pragma once

#include <string>

#include "solve/problem_file.h"
#include "strobe/attention.h"

namespace strobe::solve {

// Seconds of each stage, summed over the chunks. Stages overlap, so their sum can exceed `total`.
struct StageTimes {
  double read = 0, to_device = 0, kernel = 0, from_device = 0, write = 0;
  double busy = 0;     // time in which the device computed or copied
  double context = 0;  // creating the GPU context and streams and loading kernels; excluded from `total`
  double buffers = 0;  // allocating GPU and pinned buffers
  double total = 0;    // `buffers` plus the pipeline, from the first read to the last write; excludes fsync
};

struct Solver {
  const ProblemFile& problem;
  AnswerFile& answer;
  std::string kernel;  // empty: the library chooses
};

StageTimes solve_on_cpu(const Solver& solver);
StageTimes solve_on_cuda(const Solver& solver);

// Describe `batches` batches of a problem as attention with one head. Q, K and V start at `inputs` in the layout of the
// file; O is contiguous at `outputs`. The pointers may be null if only workspace_bytes() uses the result.
Attention attention_of(const ProblemSize& size, std::int64_t batches, const float* inputs);
ForwardOutputs outputs_of(const ProblemSize& size, std::int64_t batches, float* outputs);

// Returns the workspace bytes for chunks of this many batches, including the last, smaller chunk. The smaller chunk
// may need more, since kernels split the keys (split-KV) if there are few batches.
std::size_t chunk_workspace(const ProblemSize& size, std::int64_t batches, const Execution& execution);

}  // namespace strobe::solve
